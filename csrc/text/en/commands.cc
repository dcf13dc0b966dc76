// Spoken commands of English.
//
// The words before "period" as a noun were counted in speeches, court transcripts, meetings and books.

#include "text/commands.h"
#include "text/en/english.h"

namespace asr_stream {

namespace {

using Kind = SpokenCommand::Kind;

const std::unordered_set<std::string> kArticles{"a", "an", "the", "my", "your", "our", "their", "its", "every"};

// Words that precede "period", "colon" and the like as nouns.
const std::unordered_set<std::string> kAttributes{
    "long", "short", "time", "longer", "shorter", "brief", "difficult", "later", "early", "earlier", "waiting",
    "entire", "glacial", "indefinite", "grace", "interim", "extended", "lengthy", "limited", "limitations",
    "limitation", "transition", "trial", "probation", "first", "second", "third", "fourth", "fifth", "last",
    "next", "two", "war", "damage", "filing", "removal", "free", "lunch", "class", "rest", "notice", "post",
    "pre", "middle", "late", "romantic", "baroque", "classical", "modern", "medieval", "jurassic", "triassic",
    "permian", "edo", "menstrual", "fertile", "incubation", "gestation", "reporting", "accounting", "pay",
    "payback", "cooling", "probationary", "given", "fixed", "new", "old", "great", "little", "other", "different",
    "particular", "sudden", "mad", "quick", "hundred", "thousand", "meter", "yard", "oxford", "inverted",
    "sigmoid", "baseball", "bottle", "ice", "polar", "market", "night", "sun", "knee", "salary", "price", "flat",
    "cloth", "fur", "red", "blue", "black", "white", "green", "straw", "high", "large", "small", "another",
    "whose", "which", "of", "whole", "certain", "same"};

// Likewise, but not at the end of the utterance ("I like this period").
const std::unordered_set<std::string> kDeterminers{"this", "that", "these", "those", "some", "any",
                                                   "each", "no",   "what",  "his",   "one"};

// The only words that precede "comma" as a noun, because people rarely talk about commas.
const std::unordered_set<std::string> kOfCommas{"oxford", "serial", "inverted", "another"};

// Words that precede "cap" and "dash" as verbs.
const std::unordered_set<std::string> kSubjects{"to",   "will",  "would", "can",  "could", "should", "must", "may",
                                                "might", "and",   "or",    "then", "i",     "he",     "she",  "they",
                                                "we",    "you",   "don't", "not",  "in",    "with",   "from"};

const std::unordered_set<std::string> kUnitsOfTime{"year", "month", "week", "day", "hour", "minute", "decade"};
const std::unordered_set<std::string> kBeforeUnit{"a", "an", "one", "this", "that", "last", "next", "every", "per",
                                                  "each", "the", "same", "another"};

// Words that follow such a noun or verb, as in "a period of", "dash off", "cap and gown".
const std::unordered_set<std::string> kComplements{"of",      "off",     "out",   "cancer",
                                                   "between", "through", "drama", "piece"};
const std::unordered_set<std::string> kNoCapitals{"of", "and", "on", "off", "in",  "is",  "was", "at",
                                                  "or", "to",  "the", "a",  "for", "with", "that", "it"};

bool ends_in(const std::string& word, std::string_view end) {
  return word.size() > end.size() + 2 && word.compare(word.size() - end.size(), end.size(), end) == 0;
}

bool is_adjective(const std::string& word) {
  const auto ends = [&word](std::string_view end) { return ends_in(word, end); };
  return ends("ial") || ends("ical") || ends("ional") || ends("able") || ends("ible") || ends("ory") || ends("ary") ||
         ends("ous") || ends("ive") || ends("ian") || ends("'s") || ends("ged") || ends("ular");
}

bool is_ordinary(const std::vector<std::string>& words, std::size_t first, std::size_t last) {
  const auto word = [&words](std::size_t i) { return i < words.size() ? words[i] : std::string(); };
  const std::string before = first > 0 ? word(first - 1) : "", after = word(last + 1);
  if (words[first] == "comma") return kOfCommas.count(before) || after == "splice";
  if (kDeterminers.count(before) && !after.empty()) return true;
  if (kAttributes.count(before) || ends_in(before, "'s") || kComplements.count(after)) return true;
  const bool is_verb = words[first] == "cap" || words[first] == "dash";
  if (is_verb && kSubjects.count(before)) return true;
  if (words[first] == "cap") return after.empty() || kNoCapitals.count(after);
  if (first > 1 && kUnitsOfTime.count(before)) return !kBeforeUnit.count(word(first - 2));
  for (std::size_t back = 2; is_adjective(before) && back <= 3 && back <= first; ++back) {
    if (kArticles.count(word(first - back))) return true;
  }
  return false;
}

}  // namespace

const CommandLanguage& english_commands() {
  static const CommandLanguage commands{
      {
          {"comma", Kind::kMark, ",", true},
          {"period", Kind::kMark, ".", true},
          {"full stop", Kind::kMark, "."},
          {"question mark", Kind::kMark, "?"},
          {"exclamation mark", Kind::kMark, "!"},
          {"exclamation point", Kind::kMark, "!"},
          {"colon", Kind::kMark, ":", true},
          {"semicolon", Kind::kMark, ";"},
          {"semi colon", Kind::kMark, ";"},
          {"ellipsis", Kind::kMark, "..."},
          {"dot dot dot", Kind::kMark, "..."},
          {"open quote", Kind::kOpening, "\""},
          {"open quotes", Kind::kOpening, "\""},
          {"close quote", Kind::kMark, "\""},
          {"close quotes", Kind::kMark, "\""},
          {"end quote", Kind::kMark, "\""},
          {"open parenthesis", Kind::kOpening, "("},
          {"close parenthesis", Kind::kMark, ")"},
          {"open bracket", Kind::kOpening, "["},
          {"close bracket", Kind::kMark, "]"},
          {"hyphen", Kind::kJoining, "-", true},
          {"dash", Kind::kSeparate, "–", true},
          {"new line", Kind::kBreak, "\n"},
          {"newline", Kind::kBreak, "\n"},
          {"next line", Kind::kBreak, "\n", true},
          {"new paragraph", Kind::kBreak, "\n\n"},
          {"cap", Kind::kCapital, "", true},
          {"all caps", Kind::kCapitals},
          {"scratch that", Kind::kTakeBack},
          {"undo that", Kind::kTakeBack},
      },
      kArticles,
      &is_ordinary,
  };
  return commands;
}

}  // namespace asr_stream
