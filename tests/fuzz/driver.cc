// A replacement for libFuzzer's driver, without coverage: runs a fuzz target on every file of a corpus, and then on
// random changes of them for a given time. The changes are the same in every run.
//
//     fuzz_wav -max_total_time=20 corpus/wav
//
// After a crash, its input is in the file fuzz-input; `fuzz_wav fuzz-input` runs it again.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));

namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t kMaxSize = 1 << 16;

Bytes read(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(stream), {});
}

Bytes current;

void save_current() {
  std::ofstream("fuzz-input", std::ios::binary).write(reinterpret_cast<const char*>(current.data()),
                                                       static_cast<std::streamsize>(current.size()));
}

void save_on_death() {
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_current);
  std::signal(SIGABRT, [](int) { save_current(); });
}

void run(const Bytes& input) {
  current.assign(input.begin(), input.end());
  current.shrink_to_fit();  // so that a read past the end is detected
  LLVMFuzzerTestOneInput(current.data(), current.size());
}

class Mutator {
 public:
  explicit Mutator(const std::vector<Bytes>& corpus) : corpus_(corpus) {}

  Bytes next() {
    Bytes bytes = corpus_[below(corpus_.size())];
    for (std::size_t count = 1 + below(6); count; --count) change(bytes);
    bytes.resize(std::min(bytes.size(), kMaxSize));
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return limit ? random_() % limit : 0; }

  void change(Bytes& bytes) {
    const std::size_t at = below(bytes.size());
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t length = std::min(1 + below(16), bytes.size() - at);
    switch (below(7)) {
      case 0:
        if (length) bytes[at] ^= static_cast<std::uint8_t>(1u << below(8));
        break;
      case 1:  // a number at the edge of a range
        for (std::size_t i = at; i < at + length; ++i) bytes[i] = edges_[below(edges_.size())];
        break;
      case 2:
        for (std::size_t i = at; i < at + length; ++i) bytes[i] = static_cast<std::uint8_t>(random_());
        break;
      case 3:
        bytes.erase(place, place + static_cast<std::ptrdiff_t>(length));
        break;
      case 4: {
        const Bytes copy(place, place + static_cast<std::ptrdiff_t>(length));
        const auto target = static_cast<std::ptrdiff_t>(below(bytes.size() + 1));
        bytes.insert(bytes.begin() + target, copy.begin(), copy.end());
        break;
      }
      case 5:
        bytes.resize(at);
        break;
      case 6: {  // continues like another file
        const Bytes& other = corpus_[below(corpus_.size())];
        bytes.resize(at);
        bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(below(other.size())), other.end());
        break;
      }
    }
  }

  const std::vector<Bytes>& corpus_;
  const std::vector<std::uint8_t> edges_{0x00, 0x01, 0x7f, 0x80, 0xff};
  std::mt19937 random_{20240601};
};

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0.0;
  std::vector<Bytes> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i], option = "-max_total_time=";
    if (argument.rfind(option, 0) == 0) {
      seconds = std::atof(argument.c_str() + option.size());
    } else if (std::filesystem::is_directory(argument)) {
      for (const auto& entry : std::filesystem::directory_iterator(argument)) corpus.push_back(read(entry.path()));
    } else {
      corpus.push_back(read(argument));
    }
  }
  if (corpus.empty() || (corpus.size() == 1 && corpus[0].empty())) {
    std::fprintf(stderr, "usage: %s [-max_total_time=SECONDS] CORPUS...\n", argv[0]);
    return 2;
  }
  std::sort(corpus.begin(), corpus.end());
  save_on_death();
  for (const Bytes& input : corpus) run(input);
  Mutator mutator(corpus);
  long count = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (; std::chrono::steady_clock::now() < end; ++count) run(mutator.next());
  std::printf("%s: %zu inputs and %ld changes of them, no failure\n", argv[0], corpus.size(), count);
  return 0;
}
