#!/bin/bash
# Trains the bundled encoder from scratch with the best known steps. asr/recipes/RECORDS.md has the effect of each.
#
#   scripts/train_bundled.sh DATA OUT [key=value ...]
#
# DATA  train.tsv, dev.tsv (path, text, speaker), noise/ (recordings without speech) and, optionally, unlabeled/:
#       recordings of many speakers without texts, with teacher/: Whisper base, converted for faster-whisper
# OUT   data sets and runs; the same command continues where it stopped
# key=value: for each training, such as train.max_steps=2 for a trial
#
# It has run from its first to its last line only with train.max_steps=2. The bundled weights were made in more steps,
# with earlier commands: docs/model_card.md.
set -euo pipefail
data=$(realpath "$1") out=$(realpath -m "$2")
shift 2
overrides=("$@")
mkdir -p "$out"
cd "$out"

# prepare NAME KIND INPUT: writes the data set unless it is complete.
prepare() { [ -f "data/$1/utterances.tsv" ] || asr prepare "$2" "$3" --out data --name "$1"; }
prepare dev manifest "$data/dev.tsv"
prepare train manifest "$data/train.tsv"
prepare noise noise "$data/noise"

# train NAME START SETTINGS...: continues a run to its end; a complete one stays. START: its initial weights, or "".
train() {
  local name=$1 start=$2
  shift 2
  asr train tiny data.train=data/train data.valid=data/dev data.noise=data/noise data.lexicon=bundled \
    "train.init=$start" "train.output=runs/$name" data.max_batch_s=60 model.dropout=0 optim.kind=muon \
    optim.schedule=linear optim.ema_decay=0.998 chunk.full_probability=0.25 augment.mask_probability=0.5 "$@" \
    ${overrides[@]+"${overrides[@]}"} --resume
}
further="data.curriculum_epochs=0 optim.warmup_steps=100 loss.phone_weight=0.8 loss.denominator_weight=0.4"

# 1. Letters and phones together, with CTC. 2. The denominator of the phones.
train ctc "" optim.lr=1e-3 loss.phone_weight=0.6 train.max_steps=10000
train discriminative runs/ctc $further optim.lr=8e-4 train.max_steps=10000
asr average 'runs/ctc*0.4' 'runs/discriminative*0.6' -o first.safetensors

# 3. The transcripts that a teacher is sure of make training texts of recordings without texts.
sets=data/train
if [ -d "$data/unlabeled" ]; then
  asr label "$data/unlabeled" --teacher "$data/teacher" -o labels.tsv --least-log-prob -0.38 --beam-size 1
  prepare unlabeled manifest labels.tsv
  sets=data/train,data/unlabeled
fi
train last first.safetensors $further "data.train=[$sets]" optim.lr=5e-4 train.seed=2 train.max_steps=6000
asr average runs/last first.safetensors -o tiny.safetensors

# 4. If there is a GPU, ten minutes on it see more audio than the last run.
best=tiny.safetensors
strong="model.dropout=0.05 augment.mask_probability=0.85 augment.num_time_masks=12 augment.max_time_frames=35
  augment.max_time_fraction=0.15"
if nvidia-smi > /dev/null 2>&1; then
  train gpu tiny.safetensors $further $strong "data.train=[$sets]" data.max_batch_s=1000 optim.lr=1.4e-3 \
    optim.ema_decay=0.995 loss.cr_ctc_weight=0.1 train.minutes=10
  best=runs/gpu
fi

# 5. The mean of two runs from these weights: other seeds see other noise, rooms and masks.
for seed in 1 2; do
  train "voices$seed" $best $further $strong "data.train=[$sets]" data.max_batch_s=80 optim.lr=4e-4 \
    optim.warmup_steps=40 optim.ema_decay=0.99 "train.seed=$seed" train.max_steps=1800
done
asr average runs/voices1 runs/voices2 -o best.safetensors

asr export best.safetensors -o tiny.onnx --language en
asr export best.safetensors -o tiny.int8.onnx --language en --int8
asr evaluate tiny.int8.onnx --lm bundled --data data/dev --chunk-ms full,640
