#include "searcher.h"

#include <utility>

namespace asr_stream {

Searcher::Searcher(std::shared_ptr<const SegmentOptions> options, bool is_last) : options_(std::move(options)) {
  if (options_->options.search == kGreedy) return;
  if (options_->phrases) {
    search_.emplace<CtcPhraseSearch>(options_->phrases);
    return;
  }
  CtcPrefixBeamSearchOptions beam = options_->beam;
  const bool has_alternatives = over_phones() && options_->options.max_alternatives > 0;
  const bool recombines = options_->fusion && options_->fusion->has_lm();
  beam.lattice = is_last && recombines && (options_->neural_lm || has_alternatives);
  search_.emplace<CtcPrefixBeamSearch>(beam, options_->fusion);
}

void Searcher::begin_utterance(const NgramLm::State* context) {
  letters_.reset();
  utterance_start_ = std::visit([](const auto& search) { return search.num_frames(); }, search_);
  if (auto* beam = std::get_if<CtcPrefixBeamSearch>(&search_)) return beam->reset(context);
  std::visit([](auto& search) { search.reset(); }, search_);
}

void Searcher::advance(const float* letters, const float* phones, std::int64_t num_frames) {
  const auto num_letters = static_cast<std::int64_t>(options_->tokens.size());
  if (!over_phones()) {
    std::visit([&](auto& search) { search.advance(letters, num_frames, num_letters); }, search_);
    return;
  }
  const std::int64_t num_phones = options_->num_phone_tokens();
  if (auto* closed = std::get_if<CtcPhraseSearch>(&search_)) return closed->advance(phones, num_frames, num_phones);
  std::get<CtcPrefixBeamSearch>(search_).advance(phones, num_frames, num_phones);
  letters_.advance(letters, num_frames, num_letters);
}

std::vector<Hypothesis> Searcher::hypotheses(std::int64_t num_best, bool finished) const {
  return std::visit([&](const auto& search) { return search.hypotheses(num_best, finished); }, search_);
}

bool Searcher::has_lattice() const noexcept {
  const auto* beam = std::get_if<CtcPrefixBeamSearch>(&search_);
  return beam && beam->has_lattice();
}

std::vector<Hypothesis> Searcher::sentences(std::int64_t num_best) const {
  return has_lattice() ? std::get<CtcPrefixBeamSearch>(search_).sentences(num_best) : hypotheses(num_best, true);
}

const std::vector<std::string>& Searcher::spellings() const {
  return options_->phrases ? options_->phrases->tokens() : options_->tokens;
}

void Searcher::set_words(std::vector<Hypothesis>& hypotheses, WordIds& ids) const {
  if (!by_spelling()) return;
  for (Hypothesis& hypothesis : hypotheses) asr_stream::set_words(hypothesis, spellings(), ids);
}

std::vector<std::vector<Word>> Searcher::words(const std::vector<Hypothesis>& hypotheses, std::int64_t position) const {
  std::vector<std::vector<Word>> result;
  const Calibration& calibration = options_->calibration;
  const FrameOrigin origin{position, utterance_start_};
  if (!by_spelling()) {
    const Hypothesis letters = letters_.hypotheses().front();
    for (const Hypothesis& hypothesis : hypotheses) {
      result.push_back(
          asr_stream::words(hypothesis, *options_->fusion, letters, options_->tokens, calibration, origin));
    }
    return result;
  }
  const bool with_lm = options_->fusion && options_->fusion->has_lm();
  const ConfidenceMap& map = over_phones() ? calibration.confidence_with_phones
                             : with_lm     ? calibration.confidence_with_lm
                                           : calibration.confidence_without_lm;
  for (const Hypothesis& hypothesis : hypotheses) {
    result.push_back(asr_stream::words(hypothesis, spellings(), map, origin));
  }
  return result;
}

Transcript Searcher::transcript() const {
  std::vector<Hypothesis> best = hypotheses();
  std::vector<std::vector<Word>> found = words(best, 0);
  return {std::move(best.front()), std::move(found.front())};
}

std::int64_t Searcher::num_trailing_blanks() const {
  return std::visit([](const auto& search) { return search.num_trailing_blanks(); }, search_);
}

std::optional<double> Searcher::sentence_end_log_prob() const {
  const auto* beam = std::get_if<CtcPrefixBeamSearch>(&search_);
  return beam ? beam->sentence_end_log_prob() : std::nullopt;
}

bool Searcher::begins_word(std::int64_t token) const {
  if (options_->phrases) return options_->phrases->begins_word(static_cast<std::int32_t>(token));
  const std::vector<std::string>& tokens = over_phones() ? options_->fusion->tokens() : options_->tokens;
  return asr_stream::begins_word(tokens[static_cast<std::size_t>(token)]);
}

}  // namespace asr_stream
