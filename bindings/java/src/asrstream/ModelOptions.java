package asrstream;

import com.sun.jna.Memory;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** How to open a model. Options that are not set have the defaults of the C API. */
public final class ModelOptions {
  private final Map<String, String> paths = new HashMap<>();
  private int numThreads = 1;

  public ModelOptions onnxruntime(String path) { return path("onnxruntime_path", path); }
  public ModelOptions lm(String path) { return path("lm_path", path); }
  public ModelOptions punctuation(String path) { return path("punctuation_path", path); }
  public ModelOptions neuralLm(String path) { return path("neural_lm_path", path); }
  public ModelOptions numThreads(int count) { numThreads = count; return this; }

  private ModelOptions path(String name, String path) {
    paths.put(name, path);
    return this;
  }

  /** Fills in the struct. The returned strings must be kept as long as it is in use. */
  List<Memory> fill(Memory options) {
    CLibrary.Loaded.library().asr_model_options_init(options, options.size());
    options.setInt(CLibrary.Loaded.layout("asr_model_options.num_threads"), numThreads);
    return CLibrary.setTexts(options, "asr_model_options", paths);
  }
}
