#!/bin/bash
# Trains the bundled encoder from scratch with the best known steps. asr/recipes/RECORDS.md has the effect of each.
#
#   scripts/train_bundled.sh DATA OUT [key=value ...]
#
# DATA  train.tsv, dev.tsv (path, text, speaker), noise/ (recordings without speech), lexicon.txt (asr lexicon make) and,
#       optionally, unlabeled/: recordings of many speakers without texts
# OUT   data sets and runs; the same command continues where it stopped
# key=value: for each training, such as train.max_steps=2 for a trial
#
# One CPU core takes about 12 hours for 28 hours of speech. The bundled weights were trained in more steps; steps that
# later ones made unnecessary are omitted here.
set -euo pipefail
data=$(realpath "$1") out=$(realpath -m "$2")
shift 2
overrides=("$@")
sets=$out/data
mkdir -p "$out"
cd "$out"

prepared() { [ -f "$sets/$1.jsonl.gz" ]; }
prepared dev || asr prepare manifest "$data/dev.tsv" --out "$sets"
prepared speeds || asr prepare manifest "$data/train.tsv" --out "$sets" --name speeds --speeds 0.9,1.0,1.1
prepared noisy || asr prepare manifest "$data/train.tsv" --out "$sets" --name noisy \
  --noise "$data/noise" --noisy-copies 1 --margins 0.2,1.5 --telephone 0.15
prepared noise_alone || asr prepare noise "$data/noise" --out "$sets" --name noise_alone --hours 0.7

# train NAME START DATA SETTINGS...: trains a run unless it is complete. START: its initial weights, or "".
train() {
  local name=$1 start=$2 sources=$3
  shift 3
  [ -f "$name.done" ] && return
  local resume=()
  compgen -G "runs/$name/checkpoint-*" > /dev/null && resume=(--resume)
  asr train tiny "data.train=[$sources]" "data.valid=$sets/dev.jsonl.gz" "data.lexicon=$data/lexicon.txt" \
    "train.init=$start" "train.output=runs/$name" data.max_batch_s=60 data.num_buckets=20 model.dropout=0 \
    optim.kind=muon optim.schedule=linear optim.ema_decay=0.998 chunk.full_probability=0.25 augment.probability=0.5 \
    augment.max_frequency_warp=0.08 model.running_mean=true "$@" ${overrides[@]+"${overrides[@]}"} ${resume[@]+"${resume[@]}"}
  touch "$name.done"
}

clean=$sets/speeds.jsonl.gz noisy=$sets/noisy.jsonl.gz silent=$sets/noise_alone.jsonl.gz
# 1. Letters and phones together, with CTC. 2. The denominator of the phones. Both runs see about 140 hours of audio.
train ctc "" "$noisy,$clean*0.33" optim.lr=1e-3 loss.phone_weight=0.6 data.curriculum_epochs=1 train.max_steps=10000
train discriminative runs/ctc "$noisy,$silent" optim.lr=8e-4 optim.warmup_steps=100 data.curriculum_epochs=0 \
  loss.phone_weight=0.8 loss.denominator_weight=0.4 train.max_steps=10000
asr average runs/ctc*0.4 runs/discriminative*0.6 -o first.safetensors

# 3. Confident transcripts of recordings without texts become training texts.
if [ -d "$data/unlabeled" ] && ! [ -f labeled.done ]; then
  asr export first.safetensors -o first.onnx --int8 --language en
  asr transcribe "$data/unlabeled" --model first.onnx --lm bundled --text plain --out texts
  python3 -c '
import json, sys
rows = map(json.loads, sys.stdin)
sure = [row for row in rows if row["confidence"] >= 0.7 and len(row["text"].split()) > 1]
print(*map(json.dumps, sure), sep="\n")' < texts/manifest.jsonl > sure.jsonl
  asr prepare manifest sure.jsonl --out "$sets" --name unlabeled
  touch labeled.done
fi
more=$noisy,$silent
prepared unlabeled && more=$noisy*0.6,$silent,$sets/unlabeled.jsonl.gz
train last first.safetensors "$more" optim.lr=5e-4 optim.warmup_steps=100 data.curriculum_epochs=0 \
  loss.phone_weight=0.8 loss.denominator_weight=0.4 train.seed=2 train.max_steps=6000
asr average runs/last first.safetensors -o tiny.safetensors

# 4. If there is a GPU, ten minutes on it see as many hours of audio as all steps above.
if python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' && ! [ -f gpu.safetensors ]; then
  asr train-gpu "$data/train.tsv" --minutes 10 --noise "$data/noise" --lexicon "$data/lexicon.txt" \
    --init tiny.safetensors --valid "$data/dev.tsv" -o gpu.safetensors
fi
[ -f gpu.safetensors ] && cp gpu.safetensors tiny.safetensors

asr export tiny.safetensors -o tiny.onnx --language en
asr export tiny.safetensors -o tiny.int8.onnx --language en --int8
asr evaluate tiny.int8.onnx --lm bundled --data "$sets/dev.jsonl.gz" --chunk-ms full,640
