// An ALSA plug-in that acts as a sound card for tests: an input with the small buffer and the single rate of a real
// card.
//
//     pcm_type.card { lib "/path/sound_card.so" }
//     pcm.!default { type card rate 48000 channels 2 plug "/path/file" }
//
// Frames arrive with the clock. The frame at device time n is a counter: n % (2^23 - 1) + 1 in the upper 24 bits of a
// signed 32-bit sample, negative in every second channel. So a recording shows every lost frame. A reader that falls
// behind by a whole buffer gets an overrun (-EPIPE); after it, the card continues with the current frame. The card is
// plugged in while the file `plug` exists.
#include <alsa/asoundlib.h>
#include <alsa/pcm_external.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { kMaxBufferFrames = 8192, kMinPeriodFrames = 64, kCount = (1 << 23) - 1 };

typedef struct {
  snd_pcm_ioplug_t io;
  char* plug;
  int64_t epoch_ns;    // when frame 0 came: the first start
  int64_t first_frame;  // device time of the first frame since `start`
  int64_t num_read;     // frames since then
} Card;

static int plugged_in(const Card* card) { return access(card->plug, F_OK) == 0; }

static int64_t frame_now(const Card* card) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec - card->epoch_ns;
  return ns / 1000 * card->io.rate / 1000000;
}

static int start(snd_pcm_ioplug_t* io) {
  Card* card = io->private_data;
  if (card->epoch_ns == 0) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    card->epoch_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
  }
  card->first_frame = frame_now(card);
  card->num_read = 0;
  const struct itimerspec every = {{0, 5000000}, {0, 5000000}};
  return timerfd_settime(io->poll_fd, 0, &every, NULL);
}

static int stop(snd_pcm_ioplug_t* io) {
  const struct itimerspec never = {{0, 0}, {0, 0}};
  return timerfd_settime(io->poll_fd, 0, &never, NULL);
}

static snd_pcm_sframes_t pointer(snd_pcm_ioplug_t* io) {
  const Card* card = io->private_data;
  if (!plugged_in(card)) {
    snd_pcm_ioplug_set_state(io, SND_PCM_STATE_DISCONNECTED);
    return -ENODEV;
  }
  const int64_t come = frame_now(card) - card->first_frame;
  if (come - card->num_read >= (int64_t)io->buffer_size) return -EPIPE;
  return come % io->buffer_size;
}

static snd_pcm_sframes_t transfer(snd_pcm_ioplug_t* io, const snd_pcm_channel_area_t* areas, snd_pcm_uframes_t offset,
                                  snd_pcm_uframes_t size) {
  Card* card = io->private_data;
  for (unsigned channel = 0; channel < io->channels; ++channel) {
    for (snd_pcm_uframes_t i = 0; i < size; ++i) {
      const int64_t count = (card->first_frame + card->num_read + (int64_t)i) % kCount + 1;
      char* to = (char*)areas[channel].addr + (areas[channel].first + (offset + i) * areas[channel].step) / 8;
      *(int32_t*)to = (int32_t)(channel % 2 ? -count : count) * 256;
    }
  }
  card->num_read += (int64_t)size;
  return (snd_pcm_sframes_t)size;
}

static int poll_revents(snd_pcm_ioplug_t* io, struct pollfd* pfds, unsigned num_fds, unsigned short* events) {
  (void)num_fds;
  const Card* card = io->private_data;
  uint64_t num_ticks;
  if (pfds[0].revents & POLLIN && read(io->poll_fd, &num_ticks, sizeof num_ticks) < 0) return -errno;
  const int64_t waiting = frame_now(card) - card->first_frame - card->num_read;
  *events = !plugged_in(card) ? POLLERR : waiting >= (int64_t)io->period_size ? POLLIN : 0;
  return 0;
}

static int close_card(snd_pcm_ioplug_t* io) {
  Card* card = io->private_data;
  close(io->poll_fd);
  free(card->plug);
  free(card);
  return 0;
}

static const snd_pcm_ioplug_callback_t kCallbacks = {
    .start = start, .stop = stop, .pointer = pointer, .transfer = transfer, .poll_revents = poll_revents,
    .close = close_card};

SND_PCM_PLUGIN_DEFINE_FUNC(card) {
  (void)root;
  long rate = 48000, channels = 2;
  const char* plug = "";
  snd_config_iterator_t i, next;
  snd_config_for_each(i, next, conf) {
    const snd_config_t* entry = snd_config_iterator_entry(i);
    const char* id;
    if (snd_config_get_id(entry, &id) < 0) continue;
    if (strcmp(id, "rate") == 0) snd_config_get_integer(entry, &rate);
    if (strcmp(id, "channels") == 0) snd_config_get_integer(entry, &channels);
    if (strcmp(id, "plug") == 0) snd_config_get_string(entry, &plug);
  }
  if (stream != SND_PCM_STREAM_CAPTURE) return -EINVAL;
  if (access(plug, F_OK) != 0) return -ENODEV;
  Card* card = calloc(1, sizeof *card);
  if (!card) return -ENOMEM;
  card->plug = strdup(plug);
  card->io.version = SND_PCM_IOPLUG_VERSION;
  card->io.name = "card";
  card->io.callback = &kCallbacks;
  card->io.private_data = card;
  card->io.poll_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  card->io.poll_events = POLLIN;
  int error = snd_pcm_ioplug_create(&card->io, name, stream, mode);
  if (error < 0) {
    close_card(&card->io);
    return error;
  }
  const unsigned access_list[] = {SND_PCM_ACCESS_RW_INTERLEAVED, SND_PCM_ACCESS_MMAP_INTERLEAVED};
  const unsigned format = SND_PCM_FORMAT_S32_LE, frame_bytes = 4 * (unsigned)channels;
  snd_pcm_ioplug_set_param_list(&card->io, SND_PCM_IOPLUG_HW_ACCESS, 2, access_list);
  snd_pcm_ioplug_set_param_list(&card->io, SND_PCM_IOPLUG_HW_FORMAT, 1, &format);
  snd_pcm_ioplug_set_param_minmax(&card->io, SND_PCM_IOPLUG_HW_CHANNELS, (unsigned)channels, (unsigned)channels);
  snd_pcm_ioplug_set_param_minmax(&card->io, SND_PCM_IOPLUG_HW_RATE, (unsigned)rate, (unsigned)rate);
  snd_pcm_ioplug_set_param_minmax(&card->io, SND_PCM_IOPLUG_HW_PERIOD_BYTES, kMinPeriodFrames * frame_bytes,
                                  kMaxBufferFrames / 2 * frame_bytes);
  snd_pcm_ioplug_set_param_minmax(&card->io, SND_PCM_IOPLUG_HW_PERIODS, 2, 64);
  snd_pcm_ioplug_set_param_minmax(&card->io, SND_PCM_IOPLUG_HW_BUFFER_BYTES, 2 * kMinPeriodFrames * frame_bytes,
                                  kMaxBufferFrames * frame_bytes);
  *pcmp = card->io.pcm;
  return 0;
}

SND_PCM_PLUGIN_SYMBOL(card);
