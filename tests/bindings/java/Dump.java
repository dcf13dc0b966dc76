import asrstream.AsrException;
import asrstream.Event;
import asrstream.Model;
import asrstream.Settings;
import asrstream.Stream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** Prints results that tests/bindings/test_bindings.py compares with Python's; see `expected` there. */
public final class Dump {
  private static String bits(double value) {
    return Long.toHexString(Double.doubleToRawLongBits(value));
  }

  private static String words(List<Event.Word> words) {
    return words.stream().map(w -> w.word() + ":" + bits(w.start()) + ":" + bits(w.end()) + ":"
        + Integer.toHexString(Float.floatToRawIntBits(w.confidence()))).collect(Collectors.joining(" "));
  }

  private static void print(int clip, Stream stream) {
    for (Event e : stream.events()) {
      System.out.println(String.join("\t", "" + clip, e.type().toString(), e.text(), bits(e.start()),
          bits(e.end()), words(e.words()), "" + e.numStable(), e.endpoint(), e.raw(), words(e.rawWords()),
          e.alternatives().stream().map(o -> o.text() + ":" + Integer.toHexString(Float.floatToRawIntBits(o.confidence()))
              + ":" + words(o.words())).collect(Collectors.joining("|")), "" + e.numTakenBack()));
    }
  }

  private static void report(Runnable call) {
    try {
      call.run();
    } catch (AsrException error) {
      System.out.println("error\t" + error.status() + "\t" + error.getMessage());
    }
  }

  private static void run(int clip, Model model, short[] samples) {
    Settings settings = new Settings();
    if (clip % 2 == 1) settings.set("chunk_ms", 320);
    if (clip == 4) {
      settings.set("hotwords", List.of("theodolite", "R2", "lorry")).set("replace", List.of("children -> kids"));
      settings.set("own_commands", List.of("old man walked slowly down the road -> scratch that"));
    }
    if (clip == 5) settings.set("phrases", List.of("old", "man", "road"));
    if (clip == 6) {
      settings.set("use_lm", false).set("search", "beam").set("silence_without_speech_s", Double.POSITIVE_INFINITY);
    }
    if (clip == 9) settings.set("max_alternatives", 3);
    try (Stream stream = model.stream(clip == 3 ? 8000 : 16000, settings)) {
      stream.warnings().forEach(warning -> System.out.println("warning\t" + warning));
      for (int index = 0; 1600 * index < samples.length; index++) {
        short[] piece = Arrays.copyOfRange(samples, 1600 * index, Math.min(1600 * (index + 1), samples.length));
        if (index == 20 && clip == 1) stream.gap(4001);
        if (index == 20 && clip == 2) stream.endUtterance();
        if (index == 20 && clip == 8) stream.change(new Settings().set("mask", List.of("the", "man")).set("text", "plain"));
        if (clip == 7) {
          float[] floats = new float[piece.length];
          for (int i = 0; i < piece.length; i++) floats[i] = piece[i] / 32768f;
          stream.accept(floats);
        } else {
          stream.accept(piece);
        }
        print(clip, stream);
      }
      stream.finish();
      print(clip, stream);
      System.out.println(clip + "\t" + stream.sampleOffset());
      if (clip == 0) report(() -> stream.accept(samples));
    }
  }

  public static void main(String[] args) throws IOException {
    Settings files = new Settings().set("lm", args[1]).set("punctuation", args[2]).set("neural_lm", args[3]);
    try (Model model = Model.open(Files.readAllBytes(Path.of(args[0])), files)) {
      model.properties().forEach((name, value) -> {
        if (!name.equals("config") && !name.equals("training")) {
          System.out.println(name + "\t" + value.replace("\n", " "));
        }
      });
      report(() -> Model.open("/nowhere.onnx", new Settings()));
      report(() -> model.stream(16000, new Settings().set("beam_sise", 5)));
      report(() -> model.stream(16000, new Settings().set("beam_size", 0)));
      report(() -> model.stream(16000, new Settings().set("text", "")));
      report(() -> model.stream(16000, new Settings().set("phrases", List.of())));
      report(() -> model.stream(16000, new Settings().set("mask", List.of("a\0b"))));
      report(() -> model.stream(999, new Settings()));
      for (int clip = 0; clip < args.length - 4; clip++) {
        byte[] bytes = Files.readAllBytes(Path.of(args[4 + clip]));
        short[] samples = new short[bytes.length / 2];
        ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asShortBuffer().get(samples);
        run(clip, model, samples);
      }
    }
  }
}
