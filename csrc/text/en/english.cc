// English number words and how numbers are written.
#include <algorithm>
#include <string>
#include <unordered_set>

#include "text/en/english.h"
#include "text/en/number_tables.h"
#include "text/letter_case.h"

namespace asr_stream {

namespace {

NumberTables make_tables() {
  NumberTables t;
  t.small = {{"one", 1},      {"two", 2},      {"three", 3},     {"four", 4},      {"five", 5},
             {"six", 6},      {"seven", 7},    {"eight", 8},     {"nine", 9},      {"ten", 10},
             {"eleven", 11},  {"twelve", 12},  {"thirteen", 13}, {"fourteen", 14}, {"fifteen", 15},
             {"sixteen", 16}, {"seventeen", 17}, {"eighteen", 18}, {"nineteen", 19}};
  t.tens = {{"twenty", 20}, {"thirty", 30},  {"forty", 40},  {"fourty", 40}, {"fifty", 50},
            {"sixty", 60},  {"seventy", 70}, {"eighty", 80}, {"ninety", 90}};
  t.ordinals = {{"first", 1},       {"second", 2},      {"third", 3},      {"fourth", 4},     {"fifth", 5},
                {"sixth", 6},       {"seventh", 7},     {"eighth", 8},     {"ninth", 9},      {"tenth", 10},
                {"eleventh", 11},   {"twelfth", 12},    {"thirteenth", 13}, {"fourteenth", 14}, {"fifteenth", 15},
                {"sixteenth", 16},  {"seventeenth", 17}, {"eighteenth", 18}, {"nineteenth", 19}};
  t.ordinal_tens = {{"twentieth", 20}, {"thirtieth", 30},  {"fortieth", 40},  {"fiftieth", 50},
                    {"sixtieth", 60},  {"seventieth", 70}, {"eightieth", 80}, {"ninetieth", 90}};
  t.decades = {{"tens", 10}, {"twenties", 20}, {"thirties", 30},  {"forties", 40},  {"fifties", 50},
               {"sixties", 60},  {"seventies", 70}, {"eighties", 80}, {"nineties", 90}};
  t.magnitudes = {{"thousand", 1},    {"million", 2},    {"billion", 3},   {"trillion", 4},
                  {"quadrillion", 5}, {"quintillion", 6}, {"sextillion", 7}};
  t.ordinal_magnitudes = {{"thousandth", 1}, {"millionth", 2}, {"billionth", 3}};
  t.repeats = {{"double", 2}, {"triple", 3}};
  t.zeros = {"zero", "oh", "o"};
  t.minus = {"minus", "negative"};

  for (const char* month : {"january", "february", "march", "april", "may", "june", "july", "august", "september",
                            "october", "november", "december"}) {
    t.month_names[month] = capitalized(month);
  }
  t.doubtful_months = {"march", "may", "august"};
  t.oclock = {"o'clock", "oclock"};
  t.minutes = {"minute", "minutes", "min"};
  t.time_prepositions = {"at", "by", "until", "till", "before", "after", "from", "around", "past"};
  t.clock_prepositions = {"at", "by", "until", "till", "before", "after", "around", "about", "it's", "is", "was"};
  t.times_of_day = {"tonight", "sharp", "tomorrow", "today", "yesterday"};
  t.parts_of_day = {{"in the morning", ""}, {"in the afternoon", ""}, {"in the evening", ""}, {"at night", ""}};
  t.day_prepositions = {"on", "by", "until", "till", "since", "from", "to", "after", "before"};
  t.parts_of_days = {"morning", "forenoon", "noon", "afternoon", "evening", "night"};
  t.opening_hours = {"open", "daily", "weekdays", "weekends", "hours"};
  for (const char* day : {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}) {
    for (const char* ending : {"", "s"}) t.opening_hours.insert(std::string(day) + ending);
  }
  t.year_prepositions = {"in", "since", "year", "by", "until", "till", "from", "of", "after", "before"};
  t.halves_of_day = {{"a m", "a.m."}, {"p m", "p.m."}, {"am", "a.m."}, {"pm", "p.m."}};
  t.zones = {{"e s t", "EST"}, {"e t", "ET"},   {"e d t", "EDT"}, {"c s t", "CST"}, {"m s t", "MST"},
             {"p s t", "PST"}, {"p t", "PT"},   {"p d t", "PDT"}, {"g m t", "GMT"}, {"u t c", "UTC"},
             {"c e t", "CET"}, {"b s t", "BST"}, {"gmt", "GMT"},  {"utc", "UTC"},   {"est", "EST"}};
  t.eras = {{"b c", "BC"}, {"bc", "BC"}, {"b c e", "BCE"}, {"a d", "AD"}, {"c e", "CE"}};

  t.currencies = {{"dollar", {"$", true, true}}, {"dollars", {"$", true}},   {"u s dollars", {"$", true}},
                  {"euro", {"€", true, true}},   {"euros", {"€", true}},     {"united states dollars", {"$", true}},
                  {"pound", {"£", false, true}}, {"pounds", {"£", false}},   {"pounds sterling", {"£", true}},
                  {"yen", {"¥", true, false, false}},   {"rupee", {"₹", true, true, false}},
                  {"rupees", {"₹", true, false, false}}, {"won", {"₩", false, false, false}}};
  for (const char* word : {"pay", "pays", "paid", "paying", "cost", "costs", "owe", "owes", "owed", "spend", "spends",
                           "spent", "charge", "charged", "earn", "earns", "earned", "worth", "price", "fined", "save",
                           "saved", "borrow", "borrowed", "lend", "lent"}) {
    t.of_money.insert(word);
  }
  t.buyers = {"me", "you", "him", "her", "us", "them"};
  t.totals = {"total", "subtotal", "price", "bill", "tab", "fare", "toll"};
  t.sold_by = {"pound", "ounce", "gallon", "liter", "litre", "kilo", "piece", "bottle", "bag", "box", "dozen", "yard",
               "minute"};
  t.rates = {"ticket", "person", "head", "night", "month", "week", "day", "share", "barrel", "hour", "year"};
  t.cents = {"cent", "cents", "pence", "penny"};
  t.units = {{"percent", "%"}, {"per cent", "%"}, {"degrees celsius", "°C"}, {"degrees centigrade", "°C"},
             {"degrees fahrenheit", "°F"}, {"degree celsius", "°C"}, {"degree fahrenheit", "°F"},
             {"miles per hour", " mph"}, {"mile per hour", " mph"}, {"m p h", " mph"}, {"m p g", " mpg"},
             {"miles per gallon", " mpg"},
             {"c c", " cc"}, {"k m", " km"}, {"c m", " cm"}, {"m m", " mm"}, {"k g", " kg"},
             {"square feet", " sq ft"}, {"square foot", " sq ft"}, {"square miles", " sq mi"},
             {"square mile", " sq mi"},
             {"frames per second", " fps"}, {"beats per minute", " bpm"}, {"r p m", " rpm"}, {"p s i", " psi"},
             {"kilometers per hour", " km/h"}, {"kilometres per hour", " km/h"}, {"kilometer per hour", " km/h"},
             {"kilometers per second", " km/s"}, {"kilometres per second", " km/s"},
             {"meters per second", " m/s"}, {"metres per second", " m/s"}, {"square kilometers", " km²"},
             {"square kilometres", " km²"}, {"square meters", " m²"}, {"square metres", " m²"},
             {"square centimeters", " cm²"}, {"cubic meters", " m³"}, {"cubic metres", " m³"},
             {"cubic centimeters", " cm³"}, {"per square kilometer", " /km²"}, {"per square meter", " /m²"},
             {"hectares", " ha"}, {"hectare", " ha"}, {"lumens", " lm"}, {"milliamps", " mA"}, {"decibels", " dB"},
             {"horsepower", " hp"}, {"astronomical units", " au"}, {"cubic decimeters", " dm³"},
             {"cubic deci meters", " dm³"}, {"kilograms force per square centimeter", " kgf/cm²"}};
  const struct { const char *prefix, *symbol; } prefixes[] = {
      {"", ""}, {"kilo", "k"}, {"mega", "M"}, {"giga", "G"}, {"milli", "m"}, {"centi", "c"}, {"deci", "d"},
      {"micro", "µ"}, {"nano", "n"}, {"tera", "T"}, {"peta", "P"}};
  const struct { const char *unit, *symbol; bool alone; } units[] = {
      {"meter", "m", true}, {"metre", "m", true}, {"gram", "g", true}, {"liter", "l", true}, {"litre", "l", true},
      {"watt", "W", true}, {"volt", "V", true}, {"hertz", "Hz", true}, {"byte", "B", false}, {"bit", "bit", false},
      {"watt hour", "Wh", true}, {"siemens", "S", true}, {"joule", "J", true}, {"newton", "N", false},
      {"pascal", "Pa", false}, {"second", "s", false}};
  for (const auto& p : prefixes) {
    for (const auto& u : units) {
      if (!*p.prefix && !u.alone) continue;
      const std::string name = std::string(p.prefix) + u.unit, symbol = std::string(" ") + p.symbol + u.symbol;
      for (const std::string& word : {name, name + "s"}) {
        t.units[word] = symbol;
        if (*p.prefix) t.units[std::string(p.prefix) + " " + word.substr(std::string(p.prefix).size())] = symbol;
      }
    }
  }
  t.people = {"people", "men", "women"};
  t.counted = {"second", "seconds", "minute", "minutes", "hour", "hours", "day", "days", "week", "weeks", "month",
               "months", "year", "years", "mile", "miles", "foot", "feet", "inch", "inches", "yards", "acres", "ounces",
               "tons", "people", "men", "women", "times", "pages", "points", "degrees", "dozen"};
  t.singular = {"second", "minute", "hour", "day", "week", "month", "year", "mile", "foot", "inch", "yard", "acre",
                "ounce", "ton", "dollar", "euro", "pound", "cent", "point", "degree", "page", "person", "man", "story",
               "part", "piece", "room", "member", "question", "gallon", "pack", "watt", "volt", "gram", "meter",
               "kilometer", "kilogram", "liter", "bedroom", "seat", "letter", "word", "digit", "line", "round", "game",
               "song", "step", "course", "hole", "star", "string", "car", "ship", "unit"};
  t.range = {"to", "or"};
  t.out_of = {{"out of", ""}, {"times out of", ""}};
  t.feet = {"foot", "feet"};
  t.pounds = {"pound", "pounds"};
  t.ounces = {"ounce", "ounces"};
  t.durations = {"second", "seconds", "minute", "minutes", "hour", "hours", "day", "days", "week", "weeks", "month",
                 "months", "year", "years"};
  t.ages = {"year", "month", "week", "day"};
  t.old = {"old", "olds"};
  t.denominators = {{"half", 2}, {"halves", 2}, {"third", 3}, {"thirds", 3}, {"quarter", 4}, {"quarters", 4},
                    {"fourths", 4}, {"eighth", 8}, {"eighths", 8}, {"sixteenth", 16}, {"sixteenths", 16}};
  t.divided = {"cup", "cups", "teaspoon", "teaspoons", "tablespoon", "tablespoons", "inch", "inches",
               "ounce", "ounces"};

  t.number_cues = {"number", "code", "extension", "room", "flight", "pin", "route", "highway", "channel", "gate",
                   "apartment", "suite", "zip", "dial", "bus", "model", "password", "passcode", "account",
                   "seat", "unit",
                   "flat", "serial", "port"};
  t.string_cues = {"digits", "last", "ends", "ending", "card"};
  t.copulas = {"is", "was"};
  t.it_is = {"it's", "that's", "they're"};
  t.books = {"genesis", "exodus", "leviticus", "deuteronomy", "joshua", "ruth", "samuel", "chronicles", "ezra",
             "nehemiah", "psalm", "psalms", "proverbs", "ecclesiastes", "isaiah", "jeremiah", "ezekiel", "daniel",
             "hosea", "joel", "amos", "micah", "habakkuk", "zechariah", "malachi", "matthew", "luke", "john", "romans",
             "corinthians", "galatians", "ephesians", "philippians", "colossians", "thessalonians", "timothy", "titus",
             "hebrews", "james", "peter", "revelation"};
  t.doubtful_books = {"mark", "acts", "job", "kings", "judges", "numbers"};
  t.wins = {"win", "wins", "won", "winning", "lose", "loses", "lost", "losing", "beat", "beats", "beating", "defeated",
            "sets", "match", "final"};
  t.divisions = {"chapter", "verse", "act", "scene", "volume", "part", "section", "book", "lesson", "step"};
  t.ordered = {"century", "centuries", "floor", "floors", "grade", "grades", "grader", "graders", "place",
               "anniversary", "birthday", "birthdays", "amendment", "amendments", "edition", "president", "congress",
               "district", "division", "infantry", "regiment", "battalion", "cavalry", "airborne", "parallel",
               "percentile", "precinct", "ward", "arrondissement", "dynasty", "minute", "hour", "day", "week", "month",
               "year", "season", "episode", "chapter", "page", "verse", "row", "round", "inning", "hole", "lap", "mile",
               "fairway", "green", "time", "attempt", "try", "match", "game", "race", "title", "goal", "victory", "win",
               "consecutive", "straight", "annual", "customer", "visitor", "caller", "letter", "item", "line", "level",
               "version", "largest", "biggest", "highest", "oldest", "volume", "lecture", "room", "meridian", "psalm",
               "hymn", "symphony", "sonnet", "canto", "act", "article", "section", "part", "stage", "step",
               "generation", "battle", "conference", "session", "meeting", "lesson", "corps", "brigade", "army",
               "dragoons", "hussars"};
  t.brief = {"timer", "timers", "pause", "delay", "ad", "video", "clip", "commercial", "spot", "break", "interval",
             "countdown", "rule", "silence", "window", "limit", "exposure", "walk", "run", "sprint", "plank", "hold",
             "timeout", "warning", "rest", "speech", "pitch", "trailer", "recording", "message", "burst", "loop", "nap",
             "lead", "head", "intro", "sample", "shot", "slot", "game", "mark"};
  t.monarchs = {"louis", "henry", "charles", "edward", "george", "james", "william", "john", "paul", "pius", "benedict",
                "leo", "gregory", "clement", "innocent", "philip", "gustav", "christian", "frederick", "carl"};
  t.with_letter = {"apartment", "room", "unit", "flat", "suite", "seat", "gate", "row", "building", "block"};
  for (const char* known :
       {"dvd", "cd", "tv", "pc", "fbi", "cia", "usa", "us", "uk", "eu", "un", "nasa", "nba", "nfl", "nhl", "mlb", "bbc",
        "cnn", "abc", "nbc", "cbs", "ibm", "gps", "usb", "atm", "ceo", "cfo", "cto", "hr", "pr", "vip", "mba", "ai",
        "it", "id", "ip", "iq", "iv", "ac", "dc", "dj", "gpu", "cpu", "api", "url", "html", "http", "pdf", "faq", "diy",
        "dna", "rna", "hiv", "aids", "mri", "er", "ok", "pm", "am", "la", "nyc", "aol", "msn", "ssn", "irs", "epa",
        "fda", "nato", "aaa", "cs", "aka", "xyz", "css", "fyi", "sql", "irc", "ira", "iou", "ios", "iso", "isp", "suv",
        "rv", "ufo", "lgbt", "npr", "ncaa", "mit", "ucla", "nypd", "lapd"}) {
    t.initials[known] = to_upper(known);
  }
  t.initials["phd"] = "PhD";
  t.initials["ios"] = "iOS";
  t.initials["ie"] = "i.e.";
  t.initials["eg"] = "e.g.";
  t.subjects = {"i", "you", "he", "she", "it", "we", "they", "who", "which", "that", "there", "one"};
  t.pronoun_verbs = {"am", "was", "wasn't", "have", "haven't", "had", "hadn't", "do", "don't", "did", "didn't", "can",
                     "can't", "could", "couldn't", "will", "won't", "would", "wouldn't", "should", "shouldn't", "may",
                     "might", "must", "think", "thought", "mean", "meant", "guess", "know", "knew", "want", "wanted",
                     "wanna", "need", "needed", "feel", "felt", "like", "liked", "love", "loved", "just", "really",
                     "actually", "never", "always", "also", "say", "said", "tell", "told", "see", "saw", "get", "got",
                     "remember", "believe", "hope", "wish", "go", "went", "use", "used", "try", "tried", "live",
                     "lived", "work", "still", "probably", "definitely"};
  t.determiners = {"the", "an", "this", "that", "my", "your", "his", "her", "its", "our", "their", "some", "any", "no"};
  t.phrases = {{"nine eleven", "9/11"}, {"twenty four seven", "24/7"}, {"fifty fifty", "50-50"},
               {"s and p five hundred", "S&P 500"}, {"b two b", "B2B"}, {"b two c", "B2C"}, {"b two g", "B2G"},
               {"c two c", "C2C"}, {"p two p", "P2P"}, {"d two c", "D2C"}, {"mac o s", "macOS"},
               {"h two o", "H2O"}, {"h two s", "H2S"}, {"c o two", "CO2"},
               {"four o one k", "401(k)"}, {"four oh one k", "401(k)"}, {"five o one c", "501(c)"},
               {"omega three", "omega-3"}, {"omega six", "omega-6"}, {"three d", "3D"}, {"two d", "2D"},
               {"four g", "4G"}, {"five g", "5G"}, {"four k", "4K"}, {"eight k", "8K"}, {"ten eighty p", "1080p"},
               {"seven twenty p", "720p"}, {"four eighty p", "480p"},
               {"seven thirty seven", "737"}, {"seven forty seven", "747"}, {"seven fifty seven", "757"},
               {"seven sixty seven", "767"}, {"seven seventy seven", "777"}, {"seven eighty seven", "787"},
               {"g p t four", "GPT-4"}, {"g p t five", "GPT-5"},
               {"world war one", "World War I"}, {"world war two", "World War II"},
               {"forty niners", "49ers"}, {"eleventh hour", "eleventh hour"},
               {"like a million dollars", "like a million dollars"}};
  for (const char* compound :
       {"t-shirt", "t-shirts", "x-ray", "x-rays", "u-turn", "u-turns", "well-bred", "well-dressed",
        "good-natured", "good-looking", "cold-blooded", "old-fashioned", "middle-aged", "left-handed", "right-handed",
        "broken-hearted", "absent-minded", "brother-in-law", "sister-in-law", "mother-in-law",
        "father-in-law", "son-in-law", "daughter-in-law", "passer-by", "self-control", "self-esteem", "self-respect",
        "self-confidence", "self-defense", "self-conscious", "self-evident", "runner-up",
        "merry-go-round", "matter-of-fact", "ready-made"}) {
    std::string spoken = compound, shown = compound;
    std::replace(spoken.begin(), spoken.end(), '-', ' ');
    if (shown[1] == '-') shown = capitalized(shown);
    t.phrases[spoken] = shown;
  }
  for (const char* same : {"day to day", "day to night", "morning to night"}) t.phrases[same] = same;
  t.phrases["to day"] = "today";  // spelling of old books
  t.phrases["to night"] = "tonight";
  t.phrases["to morrow"] = "tomorrow";
  t.titles = {{"mister", "Mr."}, {"missus", "Mrs."}};
  t.streets = {"street", "avenue", "road", "lane", "drive", "boulevard", "court", "terrace", "parkway", "highway"};
  t.mailboxes = {"info", "contact", "support", "sales", "help", "hello", "admin", "office", "mail", "jobs", "press",
                 "team", "service"};
  t.top_level_domains = {"com", "org", "net", "edu", "gov", "io", "ai", "info", "co", "uk", "de", "fr", "eu", "tv",
                         "app", "dev", "us", "ca", "au", "in", "jp", "ch", "it", "es", "nl", "biz", "mil", "me", "abc"};
  t.never_local = {"look", "looking", "me", "us", "it", "them", "him", "her", "you", "available", "found", "online",
                   "site", "website", "is", "are", "was", "were", "out", "up", "over", "visit", "here", "there", "more",
                   "page", "one", "find", "works", "work", "working", "read", "people", "address", "or", "and", "the",
                   "this", "that", "an", "from", "of", "in", "into", "on", "for", "with", "by", "to", "about", "like",
                   "got", "get", "have", "has", "had", "use", "using", "called", "as", "so", "then", "but", "not",
                   "just", "new", "old", "every", "my", "your", "his", "our", "their", "big", "early", "late"};
  t.address_marks = {{"dot", "."}, {"dash", "-"}, {"hyphen", "-"}, {"underscore", "_"}};
  t.protocols = {"http", "https", "ftp"};
  t.collect_roles();
  return t;
}

NameWords make_names() {
  NameWords names;
  // Without "king", "lord", "father", "prince", which a verb follows as often as a name.
  names.titles = {"mr", "mrs", "ms", "mister", "missus", "miss", "dr", "doctor", "sir", "lady", "dame",
                       "professor", "captain", "colonel", "lieutenant", "sergeant", "aunt", "uncle", "saint", "st",
                       "mademoiselle"};
  names.ranks = {"king", "queen", "prince", "princess", "duke", "duchess", "earl", "count", "countess", "baron",
                 "baroness", "emperor", "empress", "general", "major", "corporal", "admiral", "bishop", "archbishop",
                 "cardinal", "pope", "priest", "clergyman", "devil", "judge", "senator", "president", "governor",
                 "mayor", "minister", "ambassador", "chancellor", "secretary", "inspector", "sheriff", "cousin",
                 "knight"};
  names.no_names = {"a", "an", "the", "this", "that", "these", "those", "and", "or", "but", "nor", "yet", "so", "if",
                "as", "at", "by", "for", "from", "in", "into", "of", "off", "on", "out", "over", "to", "up", "down",
                "with", "without", "about", "after", "before", "behind", "upon", "until", "while", "though",
                "because", "than", "i", "i'm", "i've", "i'll", "i'd", "you", "you're", "he", "he's", "she", "she's",
                "it", "it's", "we", "we're", "they", "they're", "me", "him", "her", "us", "them", "my", "your", "his",
                "its", "our", "their", "himself", "herself", "itself", "myself", "who", "whom", "whose", "which",
                "what", "when", "where", "why", "how", "there", "here", "then", "now", "again", "always", "never",
                "only", "also", "too", "very", "just", "not", "no", "yes", "is", "isn't", "am", "are", "aren't", "was",
                "wasn't", "were", "weren't", "be", "been", "being", "has", "hasn't", "have", "haven't", "had",
                "hadn't", "do", "don't", "does", "doesn't", "did", "didn't", "can", "can't", "cannot", "could",
                "couldn't", "shall", "should", "shouldn't", "would", "wouldn't", "won't", "might", "must",
                "said", "says", "asked", "went", "came", "began", "looked", "took", "made", "thought", "knew", "told",
                "come", "get", "give", "go", "let", "look", "please", "take", "wait"};
  names.determiners = {"a", "an", "the", "this", "that", "my", "your", "his", "her", "its", "our", "their", "some",
                       "any", "no", "every", "each"};
  names.particles = {"de", "la", "le", "du", "des", "di", "da", "van", "von", "der", "den", "del"};
  return names;
}

bool is_initialism(const std::string& word) { return english_numbers().initials.count(word) != 0; }

bool is_obscene(const std::string& word) {
  static const std::unordered_set<std::string> words = {
      "anal", "anus", "arse", "arsehole", "ass", "asses", "asshole", "assholes", "bastard", "bastards", "bitch",
      "bitches", "bollocks", "boner", "boob", "boobs", "bugger", "bullshit", "chink", "clit", "cock", "cocks", "coon",
      "coons", "crap", "cum", "cunt", "cunts", "cunty", "dick", "dicks", "dike", "dildo", "dyke", "dykes", "fag",
      "faggot", "faggots", "fags", "fuck", "fucked", "fucker", "fuckers", "fuckin", "fucking", "fucks", "gook",
      "goddam", "hooker", "horny", "jizz", "kike", "motherfucker", "nigga", "niggas", "nigger", "niggers", "orgasm",
      "paki", "pecker", "penis", "piss", "pissed", "pissing", "poof", "porn", "porno", "prick", "pricks", "pube",
      "pussies", "pussy", "queer", "rape", "rectum", "retard", "scrotum", "semen", "sex", "shit", "shits", "shitty",
      "slut", "sluts", "spic", "spunk", "tit", "tits", "tranny", "turd", "turds", "twat", "twats", "vagina", "wank",
      "wanker", "wankers", "whore", "whores", "wop"};
  return words.count(word) != 0;
}

// "I" is always capitalized, alone and as in "I'm".
void spell(std::string& word) {
  if (word == "i" || word.rfind("i'", 0) == 0) word[0] = 'I';
}

}  // namespace

const NumberTables& english_numbers() {
  static const NumberTables tables = make_tables();
  return tables;
}

const NameWords& english_names() {
  static const NameWords names = make_names();
  return names;
}

const Language& english() {
  // Commas with a lower probability before these words were wrong more often than right in TED talks and in novels.
  static const std::unordered_map<std::string, float> rare_commas = {
      {"that", 0.75f}, {"was", 0.6f}, {"were", 0.6f}, {"has", 0.6f}, {"had", 0.6f}, {"will", 0.6f}, {"would", 0.6f}};
  static const Language language{"en",         "english",    format_english_numbers, spell,
                                 respell,      &english_names(), &rare_commas, &english_commands(), is_initialism,
                                 is_obscene};
  return language;
}

}  // namespace asr_stream
