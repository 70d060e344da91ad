#include "tests/trainer/backend/cuda/order/schedules.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "tests/trainer/backend/cuda/order/range_map.h"

namespace millrace::trainer::cuda::order {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
  return hash * 0xFF51AFD7ED558CCDu;
}

// A value, and the address at which its first byte was written.
struct Bytes {
  uint64_t value = 0;
  uint64_t base = 0;

  bool operator==(const Bytes&) const = default;
};

class Runner {
 public:
  explicit Runner(const Log& log) : log_(log), queues_(log.streams.size()) {}

  // The streams that can do something.
  std::vector<int> Able() const {
    std::vector<int> able;
    for (size_t s = 0; s < queues_.size(); ++s) {
      const std::optional<size_t> next = NextOf(s);
      if (next.has_value() && !IsBlocked(*next)) able.push_back(static_cast<int>(s));
    }
    return able;
  }

  void Step(int stream) {
    const auto s = static_cast<size_t>(stream);
    const size_t place = *NextOf(s);
    if (stream != kHost) {
      queues_[s].pop_front();
      return Do(place);
    }
    ++given_;
    const Entry& entry = log_.entries[place];
    if (entry.kind == Entry::Kind::kRecord) recorded_[entry.event] = place;
    if (entry.kind == Entry::Kind::kWait) {
      const auto event = recorded_.find(entry.event);
      if (event != recorded_.end()) awaited_[place] = event->second;
    }
    if (entry.stream == kHost) return Do(place);
    queues_[static_cast<size_t>(entry.stream)].push_back(place);
  }

  LogRun Done() { return std::move(run_); }

 private:
  // The host's next entry is that of the log.
  std::optional<size_t> NextOf(size_t stream) const {
    if (stream == kHost) {
      return given_ < log_.entries.size() ? std::optional(given_) : std::nullopt;
    }
    return queues_[stream].empty() ? std::nullopt : std::optional(queues_[stream].front());
  }

  // Of a wait of the host the event is not looked up before it is given.
  bool IsBlocked(size_t place) const {
    const Entry& entry = log_.entries[place];
    if (entry.kind != Entry::Kind::kWait) return false;
    if (place < given_) {
      const auto event = awaited_.find(place);
      return event != awaited_.end() && !done_.contains(event->second);
    }
    const auto event = recorded_.find(entry.event);
    const bool waits = entry.stream == kHost && event != recorded_.end();
    return waits && !done_.contains(event->second);
  }

  void Do(size_t place) {
    const Entry& entry = log_.entries[place];
    done_.insert(place);
    run_.order.push_back(place);
    if (entry.kind != Entry::Kind::kWork) return;
    uint64_t hash = std::hash<std::string>()(entry.name);
    for (const Range& range : entry.reads) hash = Read(range, hash);
    run_.values[entry.id] = hash;
    for (size_t i = 0; i < entry.writes.size(); ++i) {
      memory_.Set(entry.writes[i], {Mix(hash, i), entry.writes[i].begin});
    }
  }

  // The bytes that it reads, whatever pieces they lie in.
  uint64_t Read(const Range& range, uint64_t hash) {
    Bytes last = {1, 0};  // none has this value and this base
    memory_.Visit(range, [&](uint64_t begin, uint64_t, const Bytes& bytes) {
      if (bytes == last) return;
      last = bytes;
      hash = Mix(Mix(hash, bytes.value), begin - range.begin);
      hash = Mix(hash, bytes.value == 0 ? 0 : begin - bytes.base);
    });
    return hash;
  }

  const Log& log_;
  size_t given_ = 0;  // entries that the host has given or done
  std::vector<std::deque<size_t>> queues_;
  std::map<int, size_t> recorded_;    // by event: the place of its last record
  std::map<size_t, size_t> awaited_;  // by the place of a wait: that of the record
  std::set<size_t> done_;
  RangeMap<Bytes> memory_;
  LogRun run_;
};

LogRun RunByPriority(const Log& log, const std::vector<int>& priorities) {
  return RunLog(log, [&](const std::vector<int>& able) {
    const auto first = std::ranges::min_element(
        able, {}, [&](int stream) { return priorities[static_cast<size_t>(stream)]; });
    return static_cast<size_t>(first - able.begin());
  });
}

}  // namespace

LogRun RunLog(const Log& log, const std::function<size_t(const std::vector<int>& able)>& choose) {
  Runner runner(log);
  for (std::vector<int> able = runner.Able(); !able.empty(); able = runner.Able()) {
    runner.Step(able[choose(able)]);
  }
  return runner.Done();
}

std::vector<LogRun> ExtremeRuns(const Log& log, size_t num_random) {
  std::vector<LogRun> runs;
  std::vector<int> priorities(log.streams.size());
  std::iota(priorities.begin(), priorities.end(), 0);
  do {
    runs.push_back(RunByPriority(log, priorities));
  } while (std::ranges::next_permutation(priorities).found);
  for (uint32_t seed = 0; seed < num_random; ++seed) {
    std::minstd_rand random(seed + 1);
    runs.push_back(
        RunLog(log, [&](const std::vector<int>& able) { return random() % able.size(); }));
  }
  return runs;
}

// Each run is the list of its choices; the next one has the last choice that can be raised raised.
std::vector<LogRun> AllRuns(const Log& log) {
  std::vector<LogRun> runs;
  std::vector<size_t> choices;
  bool goes_on = true;
  while (goes_on) {
    std::vector<size_t> most;  // choices that there were
    runs.push_back(RunLog(log, [&](const std::vector<int>& able) {
      if (most.size() == choices.size()) choices.push_back(0);
      most.push_back(able.size());
      return choices[most.size() - 1];
    }));
    while (!choices.empty() && choices.back() + 1 == most[choices.size() - 1]) choices.pop_back();
    goes_on = !choices.empty();
    if (goes_on) ++choices.back();
  }
  return runs;
}

}  // namespace millrace::trainer::cuda::order
