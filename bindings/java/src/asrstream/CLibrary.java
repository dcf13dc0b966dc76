package asrstream;

import com.sun.jna.Library;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The functions of asr_stream.h with Java types. size_t is a long, so this needs a 64-bit system. */
interface CLibrary extends Library {
  long asr_layout(String name);
  Pointer asr_status_text(int status);
  void asr_model_options_init(Pointer options, long size);
  void asr_options_init(Pointer options, long size);
  void asr_assets_init(Pointer assets, long size);
  int asr_options_set(Pointer options, Pointer name, Pointer value, byte[] error, long errorSize);
  int asr_model_load(Pointer path, Pointer options, PointerByReference model, byte[] error, long errorSize);
  int asr_model_load_memory(byte[] data, long size, Pointer options, PointerByReference model, byte[] error, long n);
  void asr_model_free(Pointer model);
  Pointer asr_model_property(Pointer model, Pointer name);
  Pointer asr_model_property_name(Pointer model, long index);
  int asr_stream_new(Pointer model, int rate, Pointer options, Pointer assets, PointerByReference stream, byte[] error,
      long errorSize);
  void asr_stream_free(Pointer stream);
  int asr_stream_accept_f32(Pointer stream, float[] samples, long count);
  int asr_stream_accept_i16(Pointer stream, short[] samples, long count);
  int asr_stream_gap(Pointer stream, long count);
  int asr_stream_end_utterance(Pointer stream);
  int asr_stream_change(Pointer stream, Pointer options, Pointer assets);
  int asr_stream_finish(Pointer stream);
  long asr_stream_sample_offset(Pointer stream);
  Pointer asr_stream_warning(Pointer stream, long index);
  Pointer asr_stream_error(Pointer stream);
  Pointer asr_stream_next_event(Pointer stream);

  /** The loaded library, and the offsets of its struct members. */
  final class Loaded {
    /** Structs, each followed by its members. */
    private static final List<String> USED = List.of("asr_options",
        "asr_model_options onnxruntime_path lm_path punctuation_path neural_lm_path num_threads",
        "asr_assets hotwords phrases mask replace command_list use_lm", "asr_word text start_s end_s confidence",
        "asr_event type text start_s end_s words num_words num_stable endpoint raw raw_words num_raw_words alternatives"
            + " num_alternatives num_taken_back", "asr_alternative text confidence words num_words");
    private static final Map<String, Long> LAYOUT = new HashMap<>();
    private static CLibrary library;

    static synchronized CLibrary library() {
      if (library == null) {
        try {
          CLibrary found = Native.load("asr_stream", CLibrary.class);
          for (String row : USED) {
            for (String name : row.replace(" ", " " + row.split(" ")[0] + ".").split(" ")) {
              LAYOUT.put(name, found.asr_layout(name));
              if (LAYOUT.get(name) < 0) {
                throw new AsrException(1, "the loaded libasr_stream has no " + name + ": take one of this version");
              }
            }
          }
          library = found;
        } catch (UnsatisfiedLinkError error) {
          throw new AsrException(1, "libasr_stream cannot be loaded: install the C library, or name its folder by"
              + " -Djna.library.path=FOLDER (" + error.getMessage().replaceAll(":?\n", "; ") + ")");
        }
      }
      return library;
    }

    /** The size of a struct, or the offset of a member, in bytes. */
    static long layout(String name) {
      library();
      return LAYOUT.get(name);
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

  /** Sets members to strings, which must be kept as long as the struct is in use. */
  static List<Memory> setTexts(Memory struct, String name, Map<String, String> texts) {
    List<Memory> kept = new ArrayList<>();
    texts.forEach((member, value) -> {
      kept.add(text(value));
      struct.setPointer(Loaded.layout(name + "." + member), kept.get(kept.size() - 1));
    });
    return kept;
  }

  /** Returns "" for NULL. */
  static String string(Pointer text) { return text == null ? "" : text.getString(0, "UTF-8"); }

  static void check(int status, byte[] error) {
    if (status != 0) throw new AsrException(status, Native.toString(error, StandardCharsets.UTF_8));
  }
}
