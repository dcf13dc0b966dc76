package asrstream;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.annotations.SerializedName;
import java.util.List;

/** An event of a stream; times are in seconds. For a PARTIAL, numStable is the number of leading words that hardly
 * change. For a FINAL, endpoint is the rule that ended it, alternatives are other hypotheses (option max_alternatives),
 * and numTakenBack is the number of earlier FINALs that it takes back ("scratch that"). */
public record Event(Type type, String text, double start, double end, List<Word> words, int numStable, String endpoint,
    String raw, List<Word> rawWords, List<Alternative> alternatives, int numTakenBack) {
  private static final Gson GSON =
      new GsonBuilder().setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES).create();

  public enum Type {
    @SerializedName("partial") PARTIAL,
    @SerializedName("final") FINAL,
    @SerializedName("gap") GAP,
    @SerializedName("error") ERROR;

    @Override
    public String toString() { return name().toLowerCase(java.util.Locale.ROOT); }
  }

  public record Word(String word, double start, double end, float confidence) {}

  public record Alternative(String text, float confidence, List<Word> words) {}

  /** Members that events of this type lack are empty. */
  public Event {
    endpoint = endpoint == null ? "" : endpoint;
    raw = raw == null ? "" : raw;
    rawWords = rawWords == null ? List.of() : rawWords;
    alternatives = alternatives == null ? List.of() : alternatives;
  }

  static Event of(String json) { return GSON.fromJson(json, Event.class); }
}
