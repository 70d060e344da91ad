#include "tests/trainer/backend/cuda/order/check.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/trainer/backend/cuda/order/range_map.h"

namespace millrace::trainer::cuda::order {
namespace {

// What is known of a byte.
struct Known {
  bool is_allocated = false;
  bool is_written = false;        // false: its contents are not to be read
  int writer = -1;                // the last entry that changed it, an allocation too
  std::string_view tensor = {};   // that it belongs to; empty: not said
  std::vector<int> readers = {};  // behind the last write, the last one of each stream
  int ready = -1;                 // the mark of its gradient, until it is summed
};

class OrderChecker {
 public:
  explicit OrderChecker(const Log& log) : log_(log), before_(log) {}

  std::vector<Finding> Run() {
    for (size_t i = 0; i < log_.entries.size(); ++i) Step(static_cast<int>(i));
    return std::move(findings_);
  }

 private:
  const Entry& At(int i) const { return log_.entries[static_cast<size_t>(i)]; }
  bool AreOrdered(int a, int b) const {
    return before_(static_cast<size_t>(a), static_cast<size_t>(b));
  }

  void Step(int i) {
    const Entry& entry = At(i);
    switch (entry.kind) {
      case Entry::Kind::kWork:
        for (const Range& range : entry.reads) Read(i, range);
        for (const Range& range : entry.writes) Write(i, range);
        break;
      case Entry::Kind::kAllocate:
        memory_.Set(entry.writes[0], {.is_allocated = true, .writer = i});
        break;
      case Entry::Kind::kFree:
        Free(i, entry.writes[0]);
        break;
      case Entry::Kind::kForget:
        for (const Range& range : entry.writes) Forget(range);
        break;
      case Entry::Kind::kReady:
        MarkReady(i, entry.reads[0]);
        break;
      case Entry::Kind::kRecord:
      case Entry::Kind::kWait:
        break;
    }
  }

  void Read(int i, const Range& range) {
    memory_.Visit(range, [&](uint64_t begin, uint64_t end, Known& known) {
      const Range piece = {begin, end - begin, range.tensor};
      if (!known.is_allocated) return Find(Fault::kNoMemory, -1, i, piece);
      if (known.writer != i && !AreOrdered(known.writer, i)) {
        Find(Fault::kRace, known.writer, i, piece);
      } else if (!known.is_written) {
        Find(Fault::kNotWritten, known.writer, i, piece);
      } else if (!range.tensor.empty() && !known.tensor.empty() && known.tensor != range.tensor) {
        Find(Fault::kWrongTensor, known.writer, i, piece);
      }
      AddReader(known, i);
      if (IsOnOther(i, known.ready)) known.ready = -1;
    });
  }

  void Write(int i, const Range& range) {
    int ready = -1;
    memory_.Visit(range, [&](uint64_t begin, uint64_t end, Known& known) {
      const Range piece = {begin, end - begin, range.tensor};
      if (!known.is_allocated) return Find(Fault::kNoMemory, -1, i, piece);
      CheckNobodyUses(i, piece, known);
      if (known.ready >= 0 && !IsOnOther(i, known.ready)) {
        Find(Fault::kMarkedEarly, known.ready, i, piece);
        ready = known.ready;
      }
    });
    memory_.Set(range, {.is_allocated = true,
                        .is_written = true,
                        .writer = i,
                        .tensor = range.tensor,
                        .ready = ready});
  }

  void CheckNobodyUses(int i, const Range& piece, const Known& known) {
    std::vector<int> users = known.readers;
    users.push_back(known.writer);
    for (const int user : users) {
      if (user != i && !AreOrdered(user, i)) Find(Fault::kRace, user, i, piece);
    }
  }

  // The host gives back what no work needs any more.
  void Free(int i, const Range& range) {
    if (At(i).stream != kHost) Write(i, range);
    memory_.Set(range, {});
  }

  void Forget(const Range& range) {
    memory_.Visit(range, [](uint64_t, uint64_t, Known& known) { known.is_written = false; });
  }

  void MarkReady(int i, const Range& range) {
    memory_.Visit(range, [&](uint64_t begin, uint64_t end, Known& known) {
      const bool is_there = known.is_written && At(known.writer).stream == At(i).stream;
      if (!is_there) {
        Find(Fault::kMarkedEarly, known.writer, i, {begin, end - begin, range.tensor});
      }
      known.ready = i;
    });
  }

  // True if entry `i` is work of another stream of the device than that of `ready`.
  bool IsOnOther(int i, int ready) const {
    return ready >= 0 && At(i).stream != At(ready).stream && At(i).stream != kHost;
  }

  void AddReader(Known& known, int i) const {
    for (int& reader : known.readers) {
      if (At(reader).stream != At(i).stream) continue;
      reader = i;
      return;
    }
    known.readers.push_back(i);
  }

  void Find(Fault fault, int first, int second, const Range& range) {
    if (!found_.emplace(fault, first, second).second) return;
    findings_.push_back({fault, first, second, TextOf(fault, first, second, range)});
  }

  std::string TextOf(Fault fault, int first, int second, const Range& range) const {
    const std::string later = Describe(log_, At(second));
    const std::string bytes = Describe(log_, range);
    const std::string earlier = first < 0 ? "nobody" : Describe(log_, At(first));
    switch (fault) {
      case Fault::kRace:
        return absl::StrCat(later, Uses(second, range) ? " writes " : " reads ", bytes, ", which ",
                            earlier, Uses(first, range) ? " writes" : " reads",
                            ", with no event between");
      case Fault::kNoMemory:
        return absl::StrCat(later, " uses ", bytes, ", which is not allocated");
      case Fault::kNotWritten:
        return absl::StrCat(later, " reads ", bytes, ", which nobody wrote; last there was ",
                            earlier);
      case Fault::kWrongTensor:
        return absl::StrCat(later, " reads ", bytes, ", but ", earlier, " wrote '",
                            TensorOf(first, range), "' there");
      default:
        return absl::StrCat(later, ": ", bytes, ": the gradient is marked before its last write; ",
                            "first was ", earlier);
    }
  }

  // True if entry `i` writes bytes of `range`.
  bool Uses(int i, const Range& range) const { return FindWrite(i, range) != nullptr; }
  std::string TensorOf(int i, const Range& range) const {
    const Range* const write = FindWrite(i, range);
    return write == nullptr ? "" : write->tensor;
  }
  const Range* FindWrite(int i, const Range& range) const {
    for (const Range& write : At(i).writes) {
      if (write.begin < range.end() && range.begin < write.end()) return &write;
    }
    return nullptr;
  }

  const Log& log_;
  const HappensBefore before_;
  RangeMap<Known> memory_;
  std::vector<Finding> findings_;
  std::set<std::tuple<Fault, int, int>> found_;
};

}  // namespace

std::ostream& operator<<(std::ostream& stream, Fault fault) {
  constexpr std::string_view kNames[] = {"race",         "no memory",    "not written",
                                         "wrong tensor", "marked early", "other work",
                                         "other source"};
  return stream << kNames[static_cast<size_t>(fault)];
}

std::ostream& operator<<(std::ostream& stream, const Finding& finding) {
  return stream << finding.fault << ": " << finding.text;
}

std::vector<Finding> CheckOrder(const Log& log) { return OrderChecker(log).Run(); }

}  // namespace millrace::trainer::cuda::order
