package asrstream;

import com.sun.jna.Library;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.nio.charset.StandardCharsets;

/** The functions of asr_stream.h with Java types. size_t is a long, so this needs a 64-bit system. */
interface CLibrary extends Library {
  Pointer asr_status_text(int status);
  Pointer asr_settings_new();
  void asr_settings_free(Pointer settings);
  int asr_settings_set(Pointer settings, Pointer name, Pointer value, byte[] error, long errorSize);
  int asr_model_load(Pointer path, Pointer settings, PointerByReference model, byte[] error, long errorSize);
  int asr_model_load_memory(byte[] data, long size, Pointer settings, PointerByReference model, byte[] error, long n);
  void asr_model_free(Pointer model);
  Pointer asr_model_property(Pointer model, Pointer name);
  Pointer asr_model_property_name(Pointer model, long index);
  int asr_stream_new(Pointer model, int rate, Pointer settings, PointerByReference stream, byte[] error, long errorSize);
  void asr_stream_free(Pointer stream);
  int asr_stream_accept_f32(Pointer stream, float[] samples, long count);
  int asr_stream_accept_i16(Pointer stream, short[] samples, long count);
  int asr_stream_gap(Pointer stream, long count);
  int asr_stream_end_utterance(Pointer stream);
  int asr_stream_change(Pointer stream, Pointer settings);
  int asr_stream_finish(Pointer stream);
  long asr_stream_sample_offset(Pointer stream);
  Pointer asr_stream_warning(Pointer stream, long index);
  Pointer asr_stream_error(Pointer stream);
  Pointer asr_stream_next_json(Pointer stream);

  /** The loaded library. */
  final class Loaded {
    private static CLibrary library;

    static synchronized CLibrary library() {
      if (library == null) {
        try {
          library = Native.load("asr_stream", CLibrary.class);
        } catch (UnsatisfiedLinkError error) {
          throw new AsrException(1, "libasr_stream cannot be loaded: install the C library, or name its folder by"
              + " -Djna.library.path=FOLDER (" + error.getMessage().replaceAll(":?\n", "; ") + ")");
        }
      }
      return library;
    }
  }

  static Memory text(String text) {
    if (text.indexOf(0) >= 0) throw new AsrException(1, "\"" + text + "\" has a NUL, where C ends a text");
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    Memory memory = new Memory(bytes.length + 1L);
    memory.write(0, bytes, 0, bytes.length);
    memory.setByte(bytes.length, (byte) 0);
    return memory;
  }

  /** Returns "" for NULL. */
  static String string(Pointer text) { return text == null ? "" : text.getString(0, "UTF-8"); }

  static void check(int status, byte[] error) {
    if (status != 0) throw new AsrException(status, Native.toString(error, StandardCharsets.UTF_8));
  }
}
