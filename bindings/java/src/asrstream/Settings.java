package asrstream;

import com.sun.jna.Pointer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToIntFunction;

/** How to open a model, and how a stream recognizes: settings by name. */
public final class Settings {
  private final Map<String, String> values = new LinkedHashMap<>();

  /** set("lm", "english.lm"), set("chunk_ms", 320), set("second_pass", false), set("hotwords", List.of("Abbey Road")) */
  public Settings set(String name, Object value) {
    values.put(name, value instanceof List<?> lines ? String.join("\n", lines.stream().map(Object::toString).toList())
        : value instanceof Number number && number.doubleValue() == Double.POSITIVE_INFINITY ? "inf" // not Infinity
        : value.toString());
    return this;
  }

  /** Returns the result of `call` with these settings in the form of the C API. */
  int use(ToIntFunction<Pointer> call) {
    CLibrary c = CLibrary.Loaded.library();
    Pointer handle = c.asr_settings_new();
    try {
      byte[] error = new byte[1024];
      values.forEach((name, value) -> CLibrary.check(
          c.asr_settings_set(handle, CLibrary.text(name), CLibrary.text(value), error, error.length), error));
      return call.applyAsInt(handle);
    } finally {
      c.asr_settings_free(handle);
    }
  }
}
