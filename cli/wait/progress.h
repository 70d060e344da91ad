#ifndef MILLRACE_CLI_WAIT_PROGRESS_H_
#define MILLRACE_CLI_WAIT_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
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

  // `total` units (0: unknown), named `unit` ("records", "steps"; "bytes" are shown as "1.5 MiB").
  Progress(std::string_view what, std::string_view unit, int64_t total = 0,
           NowFunction now = &std::chrono::steady_clock::now);
  ~Progress();  // prints the last state
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // For work whose size is known only once it runs.
  void SetTotal(int64_t total) { total_ = total; }
  void Add(int64_t amount) { Update(done_ + amount); }
  void Update(int64_t done);
  int64_t done() const { return done_; }
  // A function that sets both, for work that reports them. It must not outlive this object.
  std::function<void(int64_t done, int64_t total)> Callback();
  // Takes the bar off the terminal so that a line can be printed; it comes back with a later
  // Update.
  void Clear();

 private:
  void Print(bool last);
  std::string Line(bool last) const;
  // "1000 records", "1.2 MiB".
  std::string Amount(int64_t units) const;
  std::string Rate(double per_second) const;

  const std::string what_;
  const std::string unit_;
  const bool bytes_;     // true if the unit is "bytes"
  const bool terminal_;  // true if stderr is a terminal
  const NowFunction now_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_print_;
  int64_t total_;
  int64_t done_ = 0;
  bool updated_ = false;  // true if work was told of
  bool printed_ = false;  // true if a line was printed
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_WAIT_PROGRESS_H_
