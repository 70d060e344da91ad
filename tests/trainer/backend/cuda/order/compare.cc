#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/trainer/backend/cuda/order/check.h"
#include "tests/trainer/backend/cuda/order/range_map.h"

namespace millrace::trainer::cuda::order {
namespace {

// An item of work by its name and its number among those of that name.
using ItemName = std::pair<std::string, int>;

std::string ToText(const ItemName& item) {
  if (item.first.empty()) return "nobody";
  return absl::StrCat(item.first, " (number ", item.second, ")");
}

// The byte that an item wrote: of which of its writes, and where in it.
struct Source {
  ItemName item;
  size_t write = 0;
  uint64_t base = 0;  // address of the write's begin

  bool operator==(const Source&) const = default;
};

// Bytes of a read that come from one write.
struct Piece {
  uint64_t offset = 0;  // in the read
  uint64_t bytes = 0;
  ItemName item;
  size_t write = 0;
  uint64_t from = 0;  // in the write

  bool operator==(const Piece&) const = default;
};

struct Item {
  int place = -1;                                // of its entry
  std::vector<std::vector<Piece>> sources = {};  // by read
};
using Items = std::map<ItemName, Item>;

std::vector<Piece> SourcesOf(RangeMap<Source>& memory, const Range& range) {
  std::vector<Piece> pieces;
  memory.Visit(range, [&](uint64_t begin, uint64_t end, const Source& source) {
    const uint64_t base = source.item.first.empty() ? range.begin : source.base;
    const Piece piece = {begin - range.begin, end - begin, source.item, source.write, begin - base};
    const bool goes_on = !pieces.empty() && pieces.back().item == piece.item &&
                         pieces.back().write == piece.write &&
                         pieces.back().from + pieces.back().bytes == piece.from;
    if (goes_on) {
      pieces.back().bytes += piece.bytes;
    } else {
      pieces.push_back(piece);
    }
  });
  return pieces;
}

Items ItemsOf(const Log& log) {
  Items items;
  std::map<std::string, int> counts;
  RangeMap<Source> memory;
  for (size_t i = 0; i < log.entries.size(); ++i) {
    const Entry& entry = log.entries[i];
    if (entry.kind != Entry::Kind::kWork) continue;
    const ItemName name = {entry.name, counts[entry.name]++};
    Item& item = items[name];
    item.place = static_cast<int>(i);
    for (const Range& range : entry.reads) item.sources.push_back(SourcesOf(memory, range));
    for (size_t k = 0; k < entry.writes.size(); ++k) {
      memory.Set(entry.writes[k], {name, k, entry.writes[k].begin});
    }
  }
  return items;
}

// The first item that `sources` has otherwise than `wanted`, in words.
std::string FirstDifference(const std::vector<Piece>& sources, const std::vector<Piece>& wanted) {
  for (size_t i = 0; i < std::min(sources.size(), wanted.size()); ++i) {
    if (sources[i] == wanted[i]) continue;
    return absl::StrCat("bytes from ", sources[i].offset, " on by ", ToText(sources[i].item),
                        ", and not by ", ToText(wanted[i].item));
  }
  return absl::StrCat(sources.size(), " pieces, and not ", wanted.size());
}

Finding OtherSource(const Log& log, const Item& item, const Item& wanted) {
  const Entry& entry = log.entries[static_cast<size_t>(item.place)];
  for (size_t k = 0; k < std::min(item.sources.size(), wanted.sources.size()); ++k) {
    if (item.sources[k] == wanted.sources[k]) continue;
    return {Fault::kOtherSource, -1, item.place,
            absl::StrCat(Describe(log, entry), " reads in ", Describe(log, entry.reads[k]), " ",
                         FirstDifference(item.sources[k], wanted.sources[k]))};
  }
  return {Fault::kOtherSource, -1, item.place,
          absl::StrCat(Describe(log, entry), " reads ", item.sources.size(), " ranges, and not ",
                       wanted.sources.size())};
}

// The work of each stream, in its order.
std::vector<std::vector<const Entry*>> WorkByStream(const Log& log) {
  std::vector<std::vector<const Entry*>> streams(log.streams.size());
  for (const Entry& entry : log.entries) {
    if (entry.kind != Entry::Kind::kWork) continue;
    streams[static_cast<size_t>(entry.stream)].push_back(&entry);
  }
  return streams;
}

std::string TextOf(const Log& log, const Entry* entry) {
  if (entry == nullptr) return "nothing";
  std::string text = Describe(log, *entry);
  for (const Range& range : entry->reads) absl::StrAppend(&text, ", reads ", Describe(log, range));
  for (const Range& range : entry->writes) {
    absl::StrAppend(&text, ", writes ", Describe(log, range));
  }
  return text;
}

bool AreSame(const Entry* a, const Entry* b) {
  return a != nullptr && b != nullptr && a->name == b->name && a->reads == b->reads &&
         a->writes == b->writes;
}

}  // namespace

std::vector<Finding> CompareWork(const Log& log, const Log& reference) {
  const auto streams = WorkByStream(log);
  const auto wanted = WorkByStream(reference);
  if (log.streams != reference.streams) {
    return {{Fault::kOtherWork, -1, -1, "the streams are not those of the reference"}};
  }
  for (size_t s = 0; s < streams.size(); ++s) {
    for (size_t i = 0; i < std::max(streams[s].size(), wanted[s].size()); ++i) {
      const Entry* const have = i < streams[s].size() ? streams[s][i] : nullptr;
      const Entry* const want = i < wanted[s].size() ? wanted[s][i] : nullptr;
      if (AreSame(have, want)) continue;
      const int place = have == nullptr ? -1 : static_cast<int>(have - log.entries.data());
      return {{Fault::kOtherWork, -1, place,
               absl::StrCat("item ", i, " of ", log.streams[s], ": ", TextOf(log, have), "; not ",
                            TextOf(reference, want))}};
    }
  }
  return {};
}

std::vector<Finding> CompareSources(const Log& log, const Log& reference) {
  const Items items = ItemsOf(log);
  const Items wanted = ItemsOf(reference);
  std::vector<Finding> findings;
  for (const auto& [name, item] : items) {
    const auto same = wanted.find(name);
    if (same == wanted.end()) {
      findings.push_back({Fault::kOtherWork, -1, item.place,
                          absl::StrCat(ToText(name), " is not in the reference")});
    } else if (item.sources != same->second.sources) {
      findings.push_back(OtherSource(log, item, same->second));
    }
  }
  for (const auto& [name, item] : wanted) {
    if (items.contains(name)) continue;
    findings.push_back(
        {Fault::kOtherWork, -1, -1, absl::StrCat(ToText(name), " is only in the reference")});
  }
  std::ranges::sort(findings, {}, &Finding::second);
  return findings;
}

}  // namespace millrace::trainer::cuda::order
