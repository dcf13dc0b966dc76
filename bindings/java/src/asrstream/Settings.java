package asrstream;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToIntBiFunction;

/** The settings of a stream: options by name, and lists of words and phrases. */
public final class Settings {
  private final Map<String, String> options = new LinkedHashMap<>();
  private final Map<String, String> lists = new HashMap<>();
  private boolean useLm = true;

  /** set("chunk_ms", 320), set("second_pass", false), set("silence_after_speech_s", "inf") */
  public Settings set(String name, Object value) { options.put(name, value.toString()); return this; }
  public Settings hotwords(List<String> words) { lists.put("hotwords", String.join("\n", words)); return this; }
  public Settings phrases(List<String> phrases) { lists.put("phrases", String.join("\n", phrases)); return this; }
  public Settings mask(List<String> words) { lists.put("mask", String.join("\n", words)); return this; }
  public Settings replace(List<String> lines) { lists.put("replace", String.join("\n", lines)); return this; }
  public Settings commandList(List<String> lines) { lists.put("command_list", String.join("\n", lines)); return this; }
  public Settings withoutLm() { useLm = false; return this; }

  /** Returns the result of `call` with these settings in the form of the C API. */
  int use(ToIntBiFunction<Pointer, Pointer> call) {
    CLibrary c = CLibrary.Loaded.library();
    Memory given = new Memory(CLibrary.Loaded.layout("asr_options"));
    c.asr_options_init(given, given.size());
    byte[] error = new byte[1024];
    options.forEach((name, value) -> CLibrary.check(
        c.asr_options_set(given, CLibrary.text(name), CLibrary.text(value), error, error.length), error));
    Memory assets = new Memory(CLibrary.Loaded.layout("asr_assets"));
    c.asr_assets_init(assets, assets.size());
    assets.setInt(CLibrary.Loaded.layout("asr_assets.use_lm"), useLm ? 1 : 0);
    List<Memory> texts = CLibrary.setTexts(assets, "asr_assets", lists);
    int status = call.applyAsInt(given, assets);
    java.lang.ref.Reference.reachabilityFence(texts);
    return status;
  }
}
