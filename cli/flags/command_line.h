#ifndef MILLRACE_CLI_FLAGS_COMMAND_LINE_H_
#define MILLRACE_CLI_FLAGS_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

// Commands and their flags, by CLI11. Its parser is all inline: each file that includes it compiles
// all of it, which takes 15 s under a sanitizer, so only command_line.cc includes it.

namespace millrace::cli {

inline constexpr uint64_t kMaxInt = std::numeric_limits<int>::max();
inline constexpr uint64_t kMaxMib = 1 << 24;  // 16 TiB

// Returns the exit code.
using Action = std::function<int()>;

// A view of a flag or an argument of a Command. Each function returns the flag itself.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag Required();
  // Shows the flag's current value in --help.
  Flag ShowDefault();
  // Takes one value after each use of a flag that may be repeated.
  Flag OneValueEach();
  Flag Excludes(Flag other);

  // Checks of the value. CLI11's own let "-1" through for an unsigned number (as 2^64 - 1) and
  // "nan" for any range.
  // A whole number in [low, high], in decimal: "010" is ten.
  Flag Whole(uint64_t low, uint64_t high = std::numeric_limits<uint64_t>::max());
  // The same of a number that may be negative.
  Flag Integer();
  // A finite number in [low, high].
  Flag Finite(double low, double high);
  Flag OneOf(std::vector<std::string> words);

 private:
  CLI::Option* option_;
};

// A view of one command of a CommandLine.
class Command {
 public:
  Command(CLI::App* app, Action* chosen, std::function<void()> before = {})
      : app_(app), chosen_(chosen), before_(std::move(before)) {}

  // Returns a view of this command: the actions of the commands that are added to it, and of
  // theirs, call `before` first.
  Command With(std::function<void()> before) const;
  // Adds a subcommand; the user must then choose one of them.
  Command AddCommand(const std::string& name, const std::string& about);

  // A flag ("--name") or an argument ("name"). Parsing leaves the value in `value`, which must
  // live until then. T is int, uint64_t, double or std::string, an std::optional of
  // int64_t, uint64_t, double or std::string, or a vector of strings.
  template <typename T>
  Flag Add(const std::string& name, T& value, const std::string& about);
  // The same for a word that `set` converts.
  Flag AddWord(const std::string& name, std::function<void(const std::string&)> set,
               const std::string& about);
  // A flag without a value.
  void AddSwitch(const std::string& name, bool& value, const std::string& about);
  // The same for a flag that is set only if it is given: "--name" is true, "--name=false" false.
  void AddSwitch(const std::string& name, std::function<void(bool)> set, const std::string& about);

  // Sets the text that --help prints at the end.
  void Footer(const std::string& text);
  // Sets the action of this command. It runs after all flags were parsed.
  void Do(Action action);

 private:
  CLI::App* app_;
  Action* chosen_;
  std::function<void()> before_;  // empty: nothing is called before the action
};

// Thread-compatible.
class CommandLine {
 public:
  // `version` makes the text of --version.
  CommandLine(const std::string& name, const std::string& about,
              std::function<std::string()> version);
  ~CommandLine();

  Command top() { return Command(app_.get(), &chosen_); }

  // Parses the line and runs the action of the chosen command. Returns the exit code; an error in
  // the line is printed on standard error.
  int Run(int argc, char** argv);

 private:
  const std::unique_ptr<CLI::App> app_;
  Action chosen_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_COMMAND_LINE_H_
