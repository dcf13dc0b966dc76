import asrstream.Event;
import asrstream.Model;
import asrstream.Settings;
import asrstream.Stream;
import java.io.BufferedInputStream;
import java.io.File;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Locale;
import javax.sound.sampled.AudioFormat;
import javax.sound.sampled.AudioSystem;

/**
 * Captions of a WAV file, or live of raw 16-bit samples at 16 kHz from standard input:
 *
 * <pre>Transcribe MODEL.onnx FILE.wav|- [LANGUAGE_MODEL.lm [PUNCTUATION.onnx [NEURAL_LM.onnx]]]</pre>
 */
public final class Transcribe {
  /** Writes partials to standard error, each over the previous one, and finals with their times to standard output. */
  private static void printEvents(Stream stream) {
    for (Event event : stream.events()) {
      System.err.print("\r\033[K");
      if (event.type() == Event.Type.PARTIAL) {
        System.err.print(event.text());
      } else {
        System.out.printf(Locale.ROOT, "%8.2f %8.2f  %s%n", event.start(), event.end(), event.text());
      }
    }
  }

  private static InputStream samplesOf(String path) throws Exception {
    if (path.equals("-")) return System.in;
    AudioFormat format = new AudioFormat(16000, 16, 1, true, false);
    return AudioSystem.getAudioInputStream(format, AudioSystem.getAudioInputStream(new File(path)));
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments.length < 2) {
      System.err.println("usage: Transcribe MODEL.onnx FILE.wav|- [LM.lm [PUNCTUATION.onnx [NEURAL_LM.onnx]]]");
      System.exit(2);
    }
    Settings settings = new Settings();
    if (arguments.length > 2) settings.set("lm", arguments[2]);
    if (arguments.length > 3) settings.set("punctuation", arguments[3]);
    if (arguments.length > 4) settings.set("neural_lm", arguments[4]);
    try (InputStream audio = new BufferedInputStream(samplesOf(arguments[1]));
        Model model = Model.open(arguments[0], settings);
        Stream stream = model.stream(16000, new Settings())) {
      for (byte[] bytes; (bytes = audio.readNBytes(3200)).length > 0;) { // 0.1 s
        short[] samples = new short[bytes.length / 2];
        ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asShortBuffer().get(samples);
        stream.accept(samples);
        printEvents(stream);
      }
      stream.finish();
      printEvents(stream);
    } catch (Exception error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }
}
