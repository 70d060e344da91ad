#ifndef MILLRACE_CLI_PROGRESS_H_
#define MILLRACE_CLI_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::cli {

// Shows how far long work is, on standard error: a bar that is redrawn on a terminal, a plain line
// every few seconds elsewhere (and a last one at the end). Thread-compatible.
class Progress {
 public:
  // `total` units (0: unknown), named `unit` ("records", "bytes", "steps").
  Progress(std::string_view what, std::string_view unit, int64_t total);
  ~Progress();  // prints the last state
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Add(int64_t amount) { Update(done_ + amount); }
  void Update(int64_t done);
  int64_t done() const { return done_; }
  // Takes the bar off the terminal so that a line can be printed; it comes back with a later
  // Update.
  void Clear();

 private:
  void Print(bool last);
  std::string Line(bool last) const;

  const std::string what_;
  const std::string unit_;
  const int64_t total_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_print_;
  int64_t done_ = 0;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_PROGRESS_H_
