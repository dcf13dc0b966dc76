// The language model file, byte by byte: its values, and that a damaged file is never read past its end.
#include "search/ngram_lm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocation_counter.h"
#include "checksum.h"
#include "search/ctc_prefix_beam_search.h"
#include "search/lm_fusion.h"
#include "search/look_ahead.h"
#include "small_lm.h"

namespace asr_stream {
namespace {

TEST(NgramLm, FollowsTheLongestContextAndBacksOff) {
  const NgramLm lm = small_lm();
  NgramLm::State state = lm.begin();
  EXPECT_FLOAT_EQ(lm.advance(state, kA), -0.5f);
  EXPECT_FLOAT_EQ(lm.advance(state, kAb), -0.25f);        // trigram
  EXPECT_FLOAT_EQ(lm.advance(state, kB), -2.5f);          // unigram; "A AB" has weight 0.0, AB has 0.0
  state = lm.begin();
  lm.advance(state, kA);
  EXPECT_FLOAT_EQ(lm.advance(state, kB), -0.5f - 1.5f);   // weight of "<s> A", bigram "A B"
  state = lm.begin();
  EXPECT_FLOAT_EQ(lm.advance(state, kB), -0.4f - 2.5f);   // weight of <s>
  EXPECT_EQ(lm.find("AB"), static_cast<std::int32_t>(kAb));
  EXPECT_EQ(lm.find("ABC"), lm.unknown());
  EXPECT_TRUE(lm.phones().empty());
  EXPECT_TRUE(lm.pronunciations(kA).empty());
  EXPECT_EQ(small_lm(kPronounced).phones(), std::vector<std::string>{"P"});
  EXPECT_EQ(small_lm(kPronounced).pronunciations(kA).size(), 1u);
}

// It takes longer than everything else in opening a stream with hotwords.
TEST(NgramLm, PairsAreCountedOnce) {
  const NgramLm lm = small_lm();
  const std::vector<float>& pairs = lm.pair_log_probs();
  ASSERT_EQ(pairs.size(), 256u * 256u);
  const long before = num_allocations();
  EXPECT_EQ(lm.pair_log_probs().data(), pairs.data());
  EXPECT_EQ(num_allocations(), before);
  EXPECT_GT(pairs['A' * 256 + 'B'], pairs['B' * 256 + 'A']);
}

TEST(NgramLm, TheLexiconHoldsEverySpelling) {
  const NgramLm lm = small_lm();
  const Lexicon& lexicon = lm.lexicon();
  const std::int32_t a = lexicon.child(Lexicon::kRoot, 'A');
  EXPECT_EQ(lexicon.word(a), static_cast<std::int32_t>(kA));
  EXPECT_FLOAT_EQ(lexicon.best_log_prob(a), -1.0f);
  const std::int32_t ab = lexicon.child(a, 'B');
  EXPECT_EQ(lexicon.word(ab), static_cast<std::int32_t>(kAb));
  EXPECT_FLOAT_EQ(lexicon.best_log_prob(ab), -2.0f);
  EXPECT_EQ(lexicon.child(ab, 'B'), Lexicon::kNone);
  EXPECT_EQ(lexicon.child(Lexicon::kRoot, 'C'), Lexicon::kNone);
}

TEST(LookAhead, UsesTheFirstPronunciationsOfAWord) {
  const NgramLm lm = small_lm();
  std::vector<std::string> ways;
  for (char c = 'a'; c < 'a' + 20; ++c) ways.push_back(std::string(1, c));
  std::vector<Lexicon::Entry> entries{{"z", kB}};
  for (const std::string& way : ways) entries.push_back({way, kAb});
  const std::vector<float> log_probs(kNumWords, -1.0f);
  const Lexicon lexicon(entries, log_probs.data());
  const LookAhead look_ahead(lm, lexicon);
  LookAhead::Cache cache;
  const auto begin_with = [&](const std::string& byte) {  // of A AB and A B
    const std::int32_t child = lexicon.child(Lexicon::kRoot, static_cast<std::uint8_t>(byte[0]));
    const auto range = look_ahead.begin(kA, child, cache).range;
    return range.end - range.begin;
  };
  for (std::size_t i = 0; i < ways.size(); ++i) EXPECT_EQ(begin_with(ways[i]), i < 16 ? 1u : 0u) << ways[i];
  EXPECT_EQ(begin_with("z"), 1u);
}

constexpr std::uint32_t kManyWords = 40, kFirstWord = 3;  // after the special tokens
const std::vector<std::string> kPhones{"P", "T", "K"};

// Words of one to three phones, several of them homophones, and random bigrams.
std::vector<std::uint8_t> random_file(std::mt19937& random) {
  std::string text = "</s>\n<s>\n<unk>";
  for (std::uint32_t i = kFirstWord; i < kManyWords; ++i) text += "\nW" + std::to_string(10 + i);
  text += '\n';
  std::vector<std::uint32_t> lengths, following;
  for (std::uint32_t context = 0; context < kManyWords; ++context) {
    const std::size_t before = following.size();
    for (std::uint32_t word = 0; word < kManyWords; ++word) {
      if (random() % 4 == 0) following.push_back(word);
    }
    lengths.push_back(static_cast<std::uint32_t>(following.size() - before));
  }
  const auto num_bigrams = static_cast<std::uint32_t>(following.size());
  Writer w;
  w.text("ASRNGRAM").number(2).number(0).number(0).number(2).number(kManyWords).number(num_bigrams);
  w.number(static_cast<std::uint32_t>(text.size())).text(text);
  std::vector<float> log_probs(kManyWords);
  for (float& log_prob : log_probs) log_prob = -0.25f * static_cast<float>(4 + random() % 40);
  w.table(log_probs);
  w.real(-2.0f).real(0.125f);
  for (std::uint32_t i = 0; i < kManyWords; ++i) w.code(static_cast<std::uint8_t>(random() % 20));
  w.children(lengths, following, kManyWords);
  w.real(-8.0f).real(0.0625f);
  for (std::uint32_t i = 0; i < num_bigrams; ++i) w.code(static_cast<std::uint8_t>(random() % 120));
  w.number(5).text("P\nT\nK");
  for (std::uint32_t i = 0; i < kManyWords; ++i) {
    const bool is_mark = i < kFirstWord;
    w.code(is_mark ? 0 : 1);
    if (is_mark) continue;
    const std::uint32_t length = 1 + random() % 3;
    w.code(static_cast<std::uint8_t>(length));
    for (std::uint32_t k = 0; k < length; ++k) w.code(static_cast<std::uint8_t>(0x80 + random() % 3));
  }
  w.number(0);
  seal(w.bytes);
  return w.bytes;
}

std::vector<std::shared_ptr<const NgramLm>> random_lms(std::mt19937& random, int count) {
  std::vector<std::shared_ptr<const NgramLm>> lms;
  for (int i = 0; i < count; ++i) {
    const auto bytes = random_file(random);
    lms.push_back(std::make_shared<const NgramLm>(bytes.data(), bytes.size()));
  }
  return lms;
}

TEST(LookAhead, FindsTheLikeliestContinuationOfEachBeginning) {
  std::mt19937 random(6);
  const auto lms = random_lms(random, 3);
  std::vector<LookAhead::Cache> caches(lms.size());
  for (int i = 0; i < 3000; ++i) {
    const std::size_t index = random() % lms.size();
    const NgramLm& lm = *lms[index];
    LookAhead::Cache& cache = caches[index];
    const Lexicon& lexicon = lm.lexicon(true);
    const LookAhead& look_ahead = *lm.look_ahead(true);
    const auto context = static_cast<std::int32_t>(random() % kManyWords);
    std::string beginning;
    LookAhead::Continuations found;
    for (std::int32_t node = Lexicon::kRoot; beginning.size() < 3;) {
      beginning.push_back(static_cast<char>(NgramLm::kFirstPhone + random() % 3));
      const std::int32_t parent = std::exchange(node, lexicon.child(node, static_cast<std::uint8_t>(beginning.back())));
      if (node == Lexicon::kNone) break;
      found = beginning.size() == 1 ? look_ahead.begin(context, node, cache)
                                    : look_ahead.narrow(context, found.range, parent, node, cache);
      float best = -INFINITY;
      const auto [first, last] = lm.bigrams(context);
      for (std::uint32_t k = first; k < last; ++k) {
        for (const std::string_view way : lm.pronunciations(lm.bigram_word(k))) {
          if (way.substr(0, beginning.size()) == beginning) best = std::max(best, lm.bigram_log_probs()[k]);
        }
      }
      ASSERT_EQ(found.best_log_prob, best) << context;
    }
  }
}

TEST(LookAhead, ThreadsThatSortTheSameContinuationsAgree) {
  std::mt19937 random(8);
  const auto lm = random_lms(random, 1).front();
  const Lexicon& lexicon = lm->lexicon(true);
  const LookAhead& look_ahead = *lm->look_ahead(true);
  std::vector<std::vector<float>> found(4);
  std::vector<std::thread> threads;
  for (auto& log_probs : found) {
    threads.emplace_back([&] {
      LookAhead::Cache cache;
      for (std::int32_t word = 0; word < static_cast<std::int32_t>(kManyWords); ++word) {
        for (std::int32_t i = 0; i < lexicon.num_children(Lexicon::kRoot); ++i) {
          const std::int32_t child = lexicon.first_child(Lexicon::kRoot) + i;
          log_probs.push_back(look_ahead.begin(word, child, cache).best_log_prob);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found[0].size(), kManyWords * 3u);
  for (const auto& log_probs : found) EXPECT_EQ(log_probs, found[0]);
}

// A lexicon made entry by entry.
TEST(Lexicon, IsTheTrieOfItsEntries) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 30; ++trial) {
    std::vector<std::string> texts(1 + random() % 300);
    std::vector<float> log_probs(texts.size());
    std::vector<Lexicon::Entry> entries;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i] = random() % 3 == 0 ? "COMMON BEGINNING" : "";  // longer than what is sorted at once
      for (std::size_t k = 0; k <= random() % 4; ++k) texts[i] += static_cast<char>(0x7e + random() % 4);
      log_probs[i] = -static_cast<float>(random() % 20);
      for (std::size_t k = 0; k <= random() % 2; ++k) entries.push_back({texts[i], static_cast<std::int32_t>(i)});
    }
    const Lexicon lexicon(entries, log_probs.data());
    std::set<std::string> prefixes;
    for (const std::string& text : texts) {
      for (std::size_t size = 0; size <= text.size(); ++size) prefixes.insert(text.substr(0, size));
    }
    ASSERT_EQ(lexicon.num_nodes(), prefixes.size());
    ASSERT_EQ(lexicon.num_places(), texts.size());
    for (const std::string& prefix : prefixes) {
      std::int32_t node = Lexicon::kRoot;
      for (const char byte : prefix) node = lexicon.child(node, static_cast<std::uint8_t>(byte));
      ASSERT_NE(node, Lexicon::kNone);
      std::vector<std::pair<float, std::int32_t>> words;
      float best = -INFINITY;
      std::uint32_t first = 0;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        first += texts[i] < prefix;
        if (texts[i].compare(0, prefix.size(), prefix) == 0) best = std::max(best, log_probs[i]);
        if (texts[i] == prefix) words.emplace_back(-log_probs[i], static_cast<std::int32_t>(i));
      }
      std::sort(words.begin(), words.end());
      ASSERT_EQ(lexicon.best_log_prob(node), best);
      ASSERT_EQ(lexicon.first_place(node), first);
      ASSERT_EQ(lexicon.num_words(node), std::min(words.size(), Lexicon::kMaxWords));
      for (std::size_t i = 0; i < lexicon.num_words(node); ++i) ASSERT_EQ(lexicon.words(node)[i], words[i].second);
      std::set<std::uint8_t> bytes;
      for (std::int32_t i = 0; i < lexicon.num_children(node); ++i) {
        const std::uint8_t byte = lexicon.byte(lexicon.first_child(node) + i);
        ASSERT_TRUE(bytes.empty() || *bytes.rbegin() < byte);
        bytes.insert(byte);
        ASSERT_TRUE(prefixes.count(prefix + static_cast<char>(byte)));
      }
    }
  }
}

TEST(LookAhead, ReportsThatItsMemoryIsRefused) {
  std::mt19937 random(6);
  const auto lm = random_lms(random, 1).front();
  const LookAhead& look_ahead = *lm->look_ahead(true);
  const std::int32_t child = lm->lexicon(true).first_child(Lexicon::kRoot);
  LookAhead::Cache cache;
  fail_next_allocation();
  EXPECT_THROW(look_ahead.begin(kFirstWord, child, cache), std::bad_alloc);
}

TEST(LmFusion, NoExtensionScoresMoreThanItsBound) {
  std::mt19937 random(7);
  for (const auto& lm : random_lms(random, 5)) {
    const LmFusion fusion(lm, {"", "a"}, {}, nullptr, kPhones);
    LookAhead::Cache cache;
    LmFusion::Path path = fusion.begin();
    int num_exact = 0;
    float least_room = INFINITY;
    for (int i = 0; i < 4000; ++i) {
      if (i % 40 == 0) path = fusion.begin();
      const auto token = static_cast<std::int32_t>(1 + random() % 6);
      if (fusion.begins_word(token)) {
        std::vector<LmFusion::Ending> endings;
        fusion.endings(path, endings);
        NgramLm::State likeliest = endings.front().path.state;
        ASSERT_EQ(fusion.sentence_end_log_prob(path), lm->advance(likeliest, lm->end_of_sentence()));
        path = endings[random() % endings.size()].path;
      } else if (!path.in_word) {
        continue;
      }
      const LmFusion::Path next = fusion.advance(path, token, cache);
      const float bound = fusion.highest_score(path, token, cache);
      ASSERT_GE(bound, next.score());
      if (fusion.begins_word(token) || next.node == Lexicon::kNone) {
        ASSERT_EQ(bound, next.score());
      }
      num_exact += bound == next.score();
      const float gain = fusion.highest_gain(path.last, token);
      ASSERT_LE(gain, fusion.highest_gain(token));
      least_room = std::min(least_room, gain - (next.score() - path.score()));
      path = next;
    }
    EXPECT_GT(num_exact, 1000);
    EXPECT_NEAR(least_room, 0.0f, 1e-4f);  // where a word continues and its most likely continuation stays the same
  }
}

TEST(LmFusion, AfterAPauseTheFirstWordCountsInTheLikelierOfTwoContexts) {
  const auto bytes = small_file();
  const LmFusion fusion(std::make_shared<const NgramLm>(bytes.data(), bytes.size()),
                        {"", "\xE2\x96\x81", "A", "B"}, {1.0f, 0.0f, 0.0f, 0.0f});
  LookAhead::Cache cache;
  const NgramLm::State context = fusion.context_after(nullptr, {"A"});
  const auto after_pause = [&](const std::vector<std::int32_t>& tokens) {
    LmFusion::Path path = fusion.begin(context);
    for (const std::int32_t token : tokens) path = fusion.advance(path, token, cache);
    return path;
  };
  EXPECT_NEAR(after_pause({2, 3, 1}).score(), -0.25f, 1e-5f);               // "<s> A AB", not "<s> AB"
  EXPECT_NEAR(after_pause({2, 1}).score(), -0.5f, 1e-5f);                   // "<s> A", not "<s> A A"
  EXPECT_NEAR(after_pause({2, 1, 2, 3, 1}).score(), -0.5f - 0.25f, 1e-5f);  // the next word continues from this context
  EXPECT_NEAR(after_pause({2, 1, 2, 1}).score(), -0.5f - 1.8f, 1e-5f);      // and does not begin a sentence
  EXPECT_FALSE(after_pause({2, 1}).same_future(after_pause({1})));
}

TEST(CtcPrefixBeamSearch, TheEndOfTheSentenceIsAsLikelyAsInTheMeanOfTheLikelyHypotheses) {
  const auto bytes = small_file();
  const auto fusion = std::make_shared<const LmFusion>(
      std::make_shared<const NgramLm>(bytes.data(), bytes.size()),
      std::vector<std::string>{"", "\xE2\x96\x81", "A", "B"}, LmFusionOptions{0.5f, 0.0f, 0.0f, 0.0f});
  CtcPrefixBeamSearch search({16, 0}, fusion);
  const std::vector<float> row{std::log(0.01f), std::log(0.0001f), std::log(0.4f), std::log(0.5899f)};
  search.advance(row.data(), 1, 4);
  double total = 0.0, ends = 0.0;
  for (const Hypothesis& hypothesis : search.hypotheses(3)) {  // A, B, and silence; the space is too unlikely
    const double share = std::exp(hypothesis.log_prob + hypothesis.lm_score);
    total += share;
    const double log_prob = hypothesis.tokens.empty() ? -0.4 - 3.0 : hypothesis.tokens[0] == 2 ? -0.8 - 3.0 : -3.0;
    ends += share * std::exp(log_prob);
  }
  EXPECT_NEAR(*search.sentence_end_log_prob(), std::log(ends / total), 1e-5);
}

TEST(NgramLm, EveryCutIsRefused) {
  auto bytes = small_file(kPronounced);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    std::vector<std::uint8_t> part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    if (size >= kHeadSize) seal(part);
    // An allocation of exactly this size, so that the address sanitizer detects reads past it.
    const std::unique_ptr<std::uint8_t[]> cut(new std::uint8_t[size]);
    std::copy(part.begin(), part.end(), cut.get());
    EXPECT_THROW(NgramLm(cut.get(), size), std::invalid_argument) << size;
  }
  bytes.push_back(0);
  seal(bytes);
  EXPECT_THROW(NgramLm(bytes.data(), bytes.size()), std::invalid_argument);
}

TEST(NgramLm, AnyChangedBitIsRefused) {
  auto bytes = small_file(kPronounced);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    EXPECT_THROW(NgramLm(bytes.data(), bytes.size()), std::invalid_argument) << bit;
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
  }
}

TEST(NgramLm, NamesAnotherVersion) {
  auto bytes = small_file();
  bytes[8] = 4;
  try {
    const NgramLm lm(bytes.data(), bytes.size());
    ADD_FAILURE() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "a language model of version 4, and this release reads version 2; write it again with "
                               "`asr lm`");
  }
  bytes[8] = 1;
  try {
    const NgramLm lm(bytes.data(), bytes.size());
    ADD_FAILURE() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "a language model of version 1, and this release reads version 2: it was made by an "
                               "older release; write it again with `asr lm`");
  }
}

TEST(NgramLm, ReadsAFileAtAnyAddress) {
  const auto bytes = small_file(kPronounced);
  std::vector<std::uint64_t> aligned(bytes.size() / 8 + 2);
  for (std::size_t offset = 0; offset < 8; ++offset) {
    auto* at = reinterpret_cast<std::uint8_t*>(aligned.data()) + offset;
    std::copy(bytes.begin(), bytes.end(), at);
    const NgramLm lm(FileBytes(at, bytes.size(), nullptr));
    NgramLm::State state = lm.begin();
    EXPECT_FLOAT_EQ(lm.advance(state, kA), -0.5f);
    EXPECT_FLOAT_EQ(lm.advance(state, kAb), -0.25f);
  }
}

TEST(NgramLm, KeepsAFileWithoutACopy) {
  const auto file = small_file(kPronounced);
  std::weak_ptr<const void> kept;
  {
    const FileBytes bytes{std::vector<std::uint8_t>(file)};
    kept = bytes.owner;
    const NgramLm lm(bytes);
    EXPECT_GT(lm.bigram_log_probs().codes, bytes.data);
    EXPECT_LT(lm.bigram_log_probs().codes, bytes.data + bytes.size);
    EXPECT_EQ(kept.use_count(), 2);
  }
  EXPECT_TRUE(kept.expired());
}

TEST(NgramLm, RefusesNumbersThatTheFileCannotHold) {
  const auto good = small_file();
  const auto refused = [&](std::size_t at, std::vector<std::uint8_t> bytes, const char* message) {
    auto damaged = good;
    std::copy(bytes.begin(), bytes.end(), damaged.begin() + static_cast<std::ptrdiff_t>(at));
    seal(damaged);
    try {
      const NgramLm lm(damaged.data(), damaged.size());
      ADD_FAILURE() << "accepted: " << message;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  };
  const auto aligned = [](std::size_t at) { return (at + 7) / 8 * 8; };
  const std::size_t log_probs = aligned(kHeadSize + 4 * 5 + 22);
  const std::size_t num_ends = log_probs + 4 * kNumWords + 8 + kNumWords;  // of the ranges of bigrams
  const std::size_t blocks = aligned(num_ends + 4), lengths = aligned(blocks + 4), words = aligned(lengths + kNumWords);
  refused(kHeadSize + 8, {0xff, 0xff, 0xff, 0x3f}, "a broken index");  // a gigabyte of bigrams
  refused(kHeadSize + 8, {0xff, 0xff, 0xff, 0x7f}, "is not in [0, 1073741824]");
  refused(kHeadSize + 4 * 5 + 21, {'C'}, "its last word has no end");
  refused(log_probs, {0, 0, 0xc0, 0x7f}, "unigram log-probabilities are not within");  // NaN
  refused(num_ends, {0xff, 0xff, 0xff, 0xff}, "ends within its numbers of n-grams");
  refused(lengths, {9}, "a broken index");
  refused(blocks, {1}, "a broken index");
  refused(blocks, {0, 0, 0, 0x80}, "a broken index");   // there are no long blocks
  refused(words, {0xff}, "n-grams of words that it does not have");
}

TEST(NgramLm, RefusesPronunciationsOfNoKnownPhones) {
  const auto read = [](const std::string& phones, const std::vector<std::uint8_t>& of_a) {
    Writer w;
    w.number(static_cast<std::uint32_t>(phones.size())).text(phones).code(0).code(0).code(0);
    for (const std::uint8_t code : of_a) w.code(code);
    w.code(0).code(0).number(0);
    return small_lm({w.bytes.begin(), w.bytes.end()}).pronunciations(kA).size();
  };
  EXPECT_EQ(read("P\nQ", {1, 2, 0x80, 0x81}), 1u);
  EXPECT_THROW(read("P\nP", {1, 1, 0x80}), std::invalid_argument);
  EXPECT_THROW(read("P\nQ", {1, 1, 0x82}), std::invalid_argument);
  EXPECT_THROW(read("P\nQ", {1, 1, 0x7f}), std::invalid_argument);
  EXPECT_THROW(read("P\nQ", {1, 0}), std::invalid_argument);
}

TEST(NgramLm, AnyDamageIsRefusedOrHarmless) {
  const auto bytes = small_file(kPronounced);
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    auto damaged = bytes;
    for (int k = 0; k <= i % 3; ++k) damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
    seal(damaged);
    try {
      const NgramLm lm(damaged.data(), damaged.size());
      NgramLm::State state = lm.begin();
      for (int k = 0; k < 8; ++k) {
        lm.advance(state, static_cast<std::int32_t>(random() % lm.num_words()));
      }
      LookAhead::Cache cache;
      const LookAhead* look_ahead = lm.look_ahead(false);
      for (std::int32_t word = 0; look_ahead && word < static_cast<std::int32_t>(lm.num_words()); ++word) {
        const Lexicon& lexicon = lm.lexicon();
        for (std::int32_t i = 0; i < lexicon.num_children(Lexicon::kRoot); ++i) {
          look_ahead->begin(word, lexicon.first_child(Lexicon::kRoot) + i, cache);
        }
      }
    } catch (const std::invalid_argument&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000);
  EXPECT_LT(refused, 20000);
}

TEST(LmFusion, SearchesInThreadsShareOneModel) {
  const auto bytes = small_file();
  const auto lm = std::make_shared<const NgramLm>(bytes.data(), bytes.size());
  const auto fusion = std::make_shared<const LmFusion>(
      lm, std::vector<std::string>{"", "\xE2\x96\x81", "A", "B"}, LmFusionOptions{0.5f, 0.5f, 2.0f, 0.3f});
  std::vector<float> log_probs;
  std::mt19937 random(2);
  for (int t = 0; t < 200; ++t) {
    float row[4], sum = 0.0f;
    for (float& p : row) sum += p = static_cast<float>(1 + random() % 100);
    for (const float p : row) log_probs.push_back(std::log(p / sum));
  }
  std::vector<std::vector<std::int32_t>> found(4);
  std::vector<std::thread> threads;
  for (auto& tokens : found) {
    threads.emplace_back([&] {
      CtcPrefixBeamSearch search({16, 0}, fusion);
      for (int i = 0; i < 5; ++i) {
        search.reset();
        search.advance(log_probs.data(), 200, 4);
      }
      tokens = search.hypotheses(1, true)[0].tokens;
      search.reset();
      EXPECT_EQ(search.num_prefixes(), 0u);
      EXPECT_EQ(search.num_histories(), 0u);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(found[0].size(), 20u);
  for (const auto& tokens : found) EXPECT_EQ(tokens, found[0]);
}

}  // namespace
}  // namespace asr_stream
