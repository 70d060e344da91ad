#ifndef MILLRACE_CLI_WAIT_PROGRESS_H_
#define MILLRACE_CLI_WAIT_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::cli {

// Shows the progress of long work on standard error: a bar that is redrawn on a terminal, a plain
// line every few seconds elsewhere, and a last line at the end. Work that is over within a second,
// and before a line was shown, prints nothing. Make it before the work starts, since rates count
// from there. Thread-compatible.
class Progress {
 public:
  // Tells the time; for tests.
  using NowFunction = std::chrono::steady_clock::time_point (*)();

  // `total` units (0: unknown), named `unit` ("records", "steps"; "bytes" are shown as "1.5 MiB";
  // units without a name measure the work, but are not shown).
  Progress(std::string_view what, std::string_view unit, int64_t total = 0,
           NowFunction now = &std::chrono::steady_clock::now);
  ~Progress();  // prints the last state
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // For work whose size is known only once it runs.
  void SetTotal(int64_t total) { total_ = total; }
  // The work ends after `seconds` at the latest (0: no limit), however much of it is done.
  void SetLimit(double seconds) { limit_seconds_ = seconds; }
  void Add(int64_t amount) { Update(done_ + amount); }
  void Update(int64_t done);
  int64_t done() const { return done_; }
  // A function that sets both, for work that reports them. It must not outlive this object.
  std::function<void(int64_t done, int64_t total)> Callback();
  // Takes the bar off the terminal so that a line can be printed; it comes back with a later
  // Update.
  void Clear();

 private:
  // The part of the work that is done, and the time until all of it is; nullopt: neither is known.
  struct Rest {
    double fraction = 0;
    double seconds_left = 0;
    bool by_limit = false;  // true if the limit in time ends it
  };
  std::optional<Rest> RestAfter(double seconds) const;
  void Print(bool last);
  std::string Line(bool last) const;
  // "1000 records in 2.0 s (500/s)".
  std::string Whole(double seconds) const;
  // " 40% of 50.0 MiB, 2.0 MiB/s, 15 s left".
  std::string Tail(const Rest& rest, double seconds) const;
  // "1000 records", "1.2 MiB".
  std::string Amount(int64_t units) const;
  std::string RateAfter(double seconds) const;

  const std::string what_;
  const std::string unit_;
  const bool bytes_;     // true if the unit is "bytes"
  const bool terminal_;  // true if stderr is a terminal
  const NowFunction now_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_print_;
  int64_t total_;
  double limit_seconds_ = 0;
  int64_t done_ = 0;
  bool updated_ = false;  // true if work was told of
  bool printed_ = false;  // true if a line was printed
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_WAIT_PROGRESS_H_
