package asrstream;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.util.LinkedHashMap;
import java.util.Map;

/** An open model file. Threads and streams share it, and it may be closed before its streams. */
public final class Model implements AutoCloseable {
  private Pointer handle;

  public static Model open(String path, Settings settings) {
    CLibrary c = CLibrary.Loaded.library();
    Memory file = CLibrary.text(path);
    return new Model(settings, (s, model, error) -> c.asr_model_load(file, s, model, error, error.length));
  }

  public static Model open(byte[] bytes, Settings settings) {
    CLibrary c = CLibrary.Loaded.library();
    return new Model(settings,
        (s, model, error) -> c.asr_model_load_memory(bytes, bytes.length, s, model, error, error.length));
  }

  private interface Load {
    int from(Pointer settings, PointerByReference model, byte[] error);
  }

  private Model(Settings settings, Load load) {
    byte[] error = new byte[1024];
    PointerByReference model = new PointerByReference();
    CLibrary.check(settings.use(s -> load.from(s, model, error)), error);
    handle = model.getValue();
  }

  /** All properties of the model, such as "language": "en". */
  public Map<String, String> properties() {
    CLibrary c = CLibrary.Loaded.library();
    Map<String, String> found = new LinkedHashMap<>();
    for (Pointer name; (name = c.asr_model_property_name(handle, found.size())) != null;) {
      found.put(CLibrary.string(name), CLibrary.string(c.asr_model_property(handle, name)));
    }
    return found;
  }

  /** A new stream of mono audio at this sample rate in Hz. */
  public Stream stream(int sampleRate, Settings settings) {
    byte[] error = new byte[1024];
    PointerByReference stream = new PointerByReference();
    CLibrary.check(settings.use(s -> CLibrary.Loaded.library().asr_stream_new(handle, sampleRate, s, stream, error,
        error.length)), error);
    return new Stream(stream.getValue());
  }

  @Override
  public void close() {
    CLibrary.Loaded.library().asr_model_free(handle);
    handle = null;
  }
}
