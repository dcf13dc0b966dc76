package asrstream;

/** The reason why a call failed. */
public final class AsrException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final int status;

  AsrException(int status, String text) {
    super(text);
    this.status = status;
  }

  /** An asr_status of asr_stream.h: 1 for an invalid argument, 2 for a file that cannot be read, ... */
  public int status() {
    return status;
  }
}
