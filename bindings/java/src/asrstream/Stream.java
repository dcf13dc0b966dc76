package asrstream;

import com.sun.jna.Pointer;
import java.util.ArrayList;
import java.util.List;

/** One source of audio, for one thread at a time. Calls do their work in the calling thread. */
public final class Stream implements AutoCloseable {
  private static final int BUSY = 6;
  private final CLibrary c = CLibrary.Loaded.library();
  private Pointer handle;

  Stream(Pointer handle) { this.handle = handle; }

  public void accept(short[] samples) { check(c.asr_stream_accept_i16(handle, samples, samples.length)); }

  /** Samples in [-1, 1]. */
  public void accept(float[] samples) { check(c.asr_stream_accept_f32(handle, samples, samples.length)); }

  /** Reports that this many samples of audio were lost here, which ends the utterance. */
  public void gap(long numSamples) { check(c.asr_stream_gap(handle, numSamples)); }

  /** Ends the utterance here; its final follows. */
  public void endUtterance() { check(c.asr_stream_end_utterance(handle)); }

  /** Ends the utterance; later audio is recognized with other settings. */
  public void change(Settings settings) {
    check(settings.use(s -> c.asr_stream_change(handle, s)));
  }

  /** Ends the audio; the last events follow. */
  public void finish() { check(c.asr_stream_finish(handle)); }

  /** Position of the next sample, in 16 kHz samples including gaps. */
  public long sampleOffset() { return c.asr_stream_sample_offset(handle); }

  /** Sentences about a missing language model and skipped lines of the present settings. */
  public List<String> warnings() {
    List<String> found = new ArrayList<>();
    for (Pointer text; (text = c.asr_stream_warning(handle, found.size())) != null;) found.add(CLibrary.string(text));
    return found;
  }

  /** Returns the new events, oldest first. */
  public List<Event> events() {
    List<Event> events = new ArrayList<>();
    for (Pointer json; (json = c.asr_stream_next_json(handle)) != null;) events.add(Event.of(CLibrary.string(json)));
    return events;
  }

  @Override
  public void close() {
    c.asr_stream_free(handle);
    handle = null;
  }

  private void check(int status) {
    if (status == 0) return;
    boolean known = handle != null && status != BUSY;  // the error message may belong to another thread
    throw new AsrException(status, CLibrary.string(known ? c.asr_stream_error(handle) : c.asr_status_text(status)));
  }
}
