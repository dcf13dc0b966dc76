// Spoken commands of German.
#include "text/commands.h"
#include "text/de/german.h"

namespace asr_stream::de {

namespace {

using Kind = SpokenCommand::Kind;

const std::unordered_set<std::string> kArticles{
    "der",   "die",   "das",   "den",   "dem",    "des",    "ein",    "eine",  "einen", "einem", "einer", "eines",
    "kein",  "keine", "keinen", "mein", "meinen", "dein",   "sein",   "ihr",   "unser", "jeder", "jeden", "jedem",
    "jede",  "dieser", "diesen", "diesem", "diese", "dieses", "jedes", "jener", "welcher", "welchen"};

// Words after which "Punkt" is a noun.
const std::unordered_set<std::string> kAttributes{"zum",    "vom",     "am",       "im",     "ersten", "zweiten",
                                                  "dritten", "letzten", "nächsten", "wichtigen", "wichtiger",
                                                  "springende", "springenden", "erster", "letzter", "auf", "zu", "ein"};
const std::unordered_set<std::string> kComplements{"eins", "zwei",  "drei",  "vier",  "fünf", "sechs", "sieben",
                                                   "acht", "neun",  "zehn",  "elf",   "zwölf", "des",  "der"};

bool is_ordinary(const std::vector<std::string>& words, std::size_t first, std::size_t last) {
  const std::string before = first > 0 ? words[first - 1] : "", after = last + 1 < words.size() ? words[last + 1] : "";
  return kAttributes.count(before) || kComplements.count(after);
}

}  // namespace

const CommandLanguage& german_commands() {
  static const CommandLanguage commands{
      {
          {"komma", Kind::kMark, ",", true},
          {"punkt", Kind::kMark, ".", true},
          {"fragezeichen", Kind::kMark, "?"},
          {"ausrufezeichen", Kind::kMark, "!"},
          {"doppelpunkt", Kind::kMark, ":"},
          {"semikolon", Kind::kMark, ";"},
          {"strichpunkt", Kind::kMark, ";"},
          {"anführungszeichen auf", Kind::kOpening, "„"},
          {"anführungszeichen zu", Kind::kMark, "“"},
          {"klammer auf", Kind::kOpening, "("},
          {"klammer zu", Kind::kMark, ")"},
          {"bindestrich", Kind::kJoining, "-"},
          {"gedankenstrich", Kind::kSeparate, "–"},
          {"neue zeile", Kind::kBreak, "\n"},
          {"neuer absatz", Kind::kBreak, "\n\n"},
          {"großschreiben", Kind::kCapital},
          {"alles groß", Kind::kCapitals},
          {"streich das", Kind::kTakeBack},
          {"mach das rückgängig", Kind::kTakeBack},
      },
      kArticles,
      &is_ordinary,
  };
  return commands;
}

}  // namespace asr_stream::de
