package asrstream;

import static asrstream.CLibrary.Loaded.layout;

import com.sun.jna.Pointer;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/** An event of a stream; times are in seconds. For a PARTIAL, numStable is the number of leading words that hardly
 * change. For a FINAL, endpoint is the rule that ended it, alternatives are other hypotheses (option max_alternatives),
 * and numTakenBack is the number of earlier FINALs that it takes back ("scratch that"). */
public record Event(Type type, String text, double start, double end, List<Word> words, int numStable, String endpoint,
    String raw, List<Word> rawWords, List<Alternative> alternatives, int numTakenBack) {
  public enum Type {
    PARTIAL, FINAL, GAP, ERROR;

    @Override
    public String toString() { return name().toLowerCase(java.util.Locale.ROOT); }
  }

  public record Word(String text, double start, double end, float confidence) {}

  public record Alternative(String text, float confidence, List<Word> words) {}

  static Event of(Pointer event) {
    return new Event(Type.values()[event.getInt(layout("asr_event.type"))], text(event, "asr_event.text"),
        event.getDouble(layout("asr_event.start_s")), event.getDouble(layout("asr_event.end_s")),
        words(event, "asr_event.", ""), (int) event.getLong(layout("asr_event.num_stable")),
        text(event, "asr_event.endpoint"), text(event, "asr_event.raw"), words(event, "asr_event.", "raw_"),
        list(event, "asr_event.", "alternatives", "asr_alternative", other -> new Alternative(
            text(other, "asr_alternative.text"), other.getFloat(layout("asr_alternative.confidence")),
            words(other, "asr_alternative.", ""))), (int) event.getLong(layout("asr_event.num_taken_back")));
  }

  private static String text(Pointer struct, String name) { return CLibrary.string(struct.getPointer(layout(name))); }

  private static List<Word> words(Pointer struct, String prefix, String kind) {
    return list(struct, prefix, kind + "words", "asr_word", word -> new Word(text(word, "asr_word.text"),
        word.getDouble(layout("asr_word.start_s")), word.getDouble(layout("asr_word.end_s")),
        word.getFloat(layout("asr_word.confidence"))));
  }

  private static <T> List<T> list(Pointer struct, String prefix, String name, String type, Function<Pointer, T> of) {
    List<T> values = new ArrayList<>();
    long count = struct.getLong(layout(prefix + "num_" + name));
    for (long i = 0; i < count; i++) {
      values.add(of.apply(struct.getPointer(layout(prefix + name)).share(i * layout(type))));
    }
    return values;
  }
}
