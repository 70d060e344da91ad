#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_LOG_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_LOG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// A log of what a host gave to a device, in the order in which it gave it: work on streams, with
// the memory that it reads and writes, and the events between streams. No arithmetic is in it, so
// the step of a large network is checked in milliseconds (check.h).
//
// Two entries of a log are ordered by nothing but these rules. Entry a happens before entry b if
// they lead from a to b, in one step or several:
//
//   streams  what is on one stream runs in the order in which it was given. The host is a stream
//            too (number 0): its order is that of the program
//   giving   what the host did before it gave work to a stream is done before that work
//   events   Record puts an event behind what its stream was given so far. What is on a stream, or
//            what the host does, behind a Wait runs after the event, as it was recorded last
//            before the Wait was given. An event that was not recorded holds nobody up
//
// Not ordered, therefore: work of two streams that was given one behind the other; and what the
// host does behind a call that gave work and did not wait. Every log is in an order that these
// rules allow, for events are recorded before they are waited for.

namespace millrace::trainer::cuda::order {

inline constexpr int kHost = 0;

// Bytes of memory. Addresses are the log's own: the same in every recording of the same calls.
struct Range {
  uint64_t begin = 0;
  uint64_t bytes = 0;
  std::string tensor = "";  // the value that lies there; empty: not said

  uint64_t end() const { return begin + bytes; }
  bool operator==(const Range&) const = default;
};

struct Entry {
  enum class Kind {
    kWork,      // reads, then writes; of the host too
    kRecord,    // records `event` on `stream`
    kWait,      // `stream` waits for `event`
    kAllocate,  // writes[0] is memory from now on, of any contents, behind this on `stream`
    // It is none any more: if by the host, no work needs it; else as work on `stream`.
    kFree,
    kForget,  // what lies in `writes` is not to be read any more. The device knows nothing of it
    kReady,   // the host says that the gradient in reads[0], written on `stream`, is complete
  };
  Kind kind = Kind::kWork;
  std::string name;
  int stream = kHost;
  std::vector<Range> reads = {};
  std::vector<Range> writes = {};
  int event = -1;
  // The entry's place in the log that it was recorded in, by which it is known where logs are
  // compared.
  size_t id = 0;
};

struct Log {
  std::vector<std::string> streams = {"the host"};  // names
  std::vector<Entry> entries;
};

// "memory 3 of the device [4096, 8192)": the last allocation of `log` that begins before it.
std::string Describe(const Log& log, const Range& range);
// "all-reduce on nccl".
std::string Describe(const Log& log, const Entry& entry);

// Which entries of a log happen before which, by vector clocks (Mattern 1989): one counter per
// stream, of its entries that have happened.
class HappensBefore {
 public:
  explicit HappensBefore(const Log& log);

  // True if entry `a` happens before entry `b`. REQUIRES: a < b, places in the log.
  bool operator()(size_t a, size_t b) const;

 private:
  std::vector<int> streams_;                   // by entry
  std::vector<std::vector<uint32_t>> clocks_;  // by entry, itself included
};

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_LOG_H_
