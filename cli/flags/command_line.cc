#include "cli/flags/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "cli/exit.h"

namespace millrace::cli {
namespace {

// The description would only repeat in --help what the flag's own text says.
CLI::Validator MakeValidator(std::function<std::string(std::string&)> check) {
  return CLI::Validator(std::move(check), /*validator_desc=*/"");
}

// "; did you mean ...", or the list of all.
std::string NearestOf(std::string_view word, const std::vector<std::string>& words) {
  const std::string nearest = NearestName(word, words);
  if (!nearest.empty()) return absl::StrCat("; did you mean \"", nearest, "\"?");
  return absl::StrCat("; there are: ", absl::StrJoin(words, ", "));
}

// The first flag among `rest`, the words that `command` did not take; "": there is none.
std::string UnknownFlag(const CLI::App& command, const std::vector<std::string>& rest) {
  const auto flag = std::ranges::find_if(rest, [](const std::string& word) {
    return word.size() > 1 && word[0] == '-' && word != "--" &&
           word.find_first_of("0123456789.") != 1;
  });
  if (flag == rest.end()) return "";
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  const std::string word = flag->substr(0, flag->find('='));
  return absl::StrCat("\"", word, "\" is no flag of ", command.get_name(), NearestOf(word, flags));
}

// The flag that is none, or the word where a subcommand should stand; "": there is neither. CLI11
// says only that there is a word too many, or one too few.
std::string UnknownWord(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  const std::vector<std::string> rest = at->remaining();
  if (std::string unknown = UnknownFlag(*at, rest); !unknown.empty()) return unknown;
  if (at->get_require_subcommand_min() == 0 || rest.empty()) return "";
  std::vector<std::string> names;
  for (const CLI::App* command : at->get_subcommands({})) names.push_back(command->get_name());
  return absl::StrCat("\"", rest.front(), "\" is no subcommand of ", at->get_name(),
                      NearestOf(rest.front(), names));
}

}  // namespace

Flag Flag::Required() {
  option_->required();
  return *this;
}

Flag Flag::ShowDefault() {
  option_->capture_default_str();
  return *this;
}

Flag Flag::OneValueEach() {
  option_->allow_extra_args(false);
  return *this;
}

Flag Flag::Excludes(Flag other) {
  option_->excludes(other.option_);
  return *this;
}

Flag Flag::Whole(uint64_t low, uint64_t high) {
  // CLI11's conversion would read "010" as eight, so it gets the number that was checked.
  option_->transform(MakeValidator([low, high](std::string& text) -> std::string {
    uint64_t value = 0;
    if (absl::SimpleAtoi(text, &value) && value >= low && value <= high) {
      text = absl::StrCat(value);
      return "";
    }
    if (high == std::numeric_limits<uint64_t>::max()) {
      return absl::StrCat("\"", text, "\" is not a whole number from ", low);
    }
    return absl::StrCat("\"", text, "\" is not a whole number from ", low, " to ", high);
  }));
  return *this;
}

Flag Flag::Integer() {
  option_->transform(MakeValidator([](std::string& text) -> std::string {
    int64_t value = 0;
    if (!absl::SimpleAtoi(text, &value)) {
      return absl::StrCat("\"", text, "\" is not a whole number");
    }
    text = absl::StrCat(value);
    return "";
  }));
  return *this;
}

Flag Flag::Finite(double low, double high) {
  option_->check(MakeValidator([low, high](std::string& text) -> std::string {
    double value = 0;
    if (absl::SimpleAtod(text, &value) && std::isfinite(value) && value >= low && value <= high) {
      return "";
    }
    return absl::StrCat("\"", text, "\" is not a number from ", low, " to ", high);
  }));
  return *this;
}

Flag Flag::OneOf(std::vector<std::string> words) {
  const std::string all = absl::StrJoin(words, ",");
  option_->check(CLI::Validator(
      [words = std::move(words)](std::string& text) -> std::string {
        if (std::ranges::find(words, text) != words.end()) return "";
        return absl::StrCat("there is no \"", text, "\"", NearestOf(text, words));
      },
      absl::StrCat("{", all, "}")));
  return *this;
}

Command Command::With(std::function<void()> before) const {
  return Command(app_, chosen_, std::move(before));
}

Command Command::AddCommand(const std::string& name, const std::string& about) {
  app_->require_subcommand(1);
  return Command(app_->add_subcommand(name, about), chosen_, before_);
}

template <typename T>
Flag Command::Add(const std::string& name, T& value, const std::string& about) {
  return Flag(app_->add_option(name, value, about));
}

template Flag Command::Add(const std::string&, int&, const std::string&);
template Flag Command::Add(const std::string&, uint64_t&, const std::string&);
template Flag Command::Add(const std::string&, double&, const std::string&);
template Flag Command::Add(const std::string&, std::string&, const std::string&);
template Flag Command::Add(const std::string&, std::optional<int64_t>&, const std::string&);
template Flag Command::Add(const std::string&, std::optional<uint64_t>&, const std::string&);
template Flag Command::Add(const std::string&, std::optional<double>&, const std::string&);
template Flag Command::Add(const std::string&, std::optional<std::string>&, const std::string&);
template Flag Command::Add(const std::string&, std::vector<std::string>&, const std::string&);

Flag Command::AddWord(const std::string& name, std::function<void(const std::string&)> set,
                      const std::string& about) {
  return Flag(app_->add_option_function<std::string>(name, std::move(set), about));
}

void Command::AddSwitch(const std::string& name, bool& value, const std::string& about) {
  app_->add_flag(name, value, about);
}

void Command::AddSwitch(const std::string& name, std::function<void(bool)> set,
                        const std::string& about) {
  // The parser counts: "=false" is -1, and any other word throws an exception that it does not
  // catch.
  app_->add_flag_function(
          name, [set = std::move(set)](int64_t count) { set(count > 0); }, about)
      ->check(CLI::IsMember({"true", "false"}));
}

void Command::Footer(const std::string& text) { app_->footer(text); }

void Command::Do(Action action) {
  app_->callback([chosen = chosen_, before = before_, action = std::move(action)] {
    *chosen = [before, action] {
      if (before) before();
      return action();
    };
  });
}

CommandLine::CommandLine(const std::string& name, const std::string& about,
                         std::function<std::string()> version)
    : app_(std::make_unique<CLI::App>(about, name)) {
  app_->set_version_flag("--version", std::move(version));
}

CommandLine::~CommandLine() = default;

int CommandLine::Run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = UnknownWord(*app_);
    if (error.get_exit_code() != 0 && !unknown.empty()) return FailUsage(unknown);
    return app_->exit(error) == 0 ? kDone : kUsage;
  }
  return chosen_();
}

}  // namespace millrace::cli
