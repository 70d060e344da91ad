#include "readers/inflate/pass.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/file/index_key.h"
#include "readers/file/xxh3.h"

namespace millrace::readers {
namespace {

constexpr size_t kChunkBytes = 256 << 10;  // of the file, read at a time
constexpr size_t kStepBytes = 128 << 10;   // inflated at a time, digested while in the cache
constexpr size_t kMostCopied = 256 << 10;  // of the inflated bytes at once, by ReadAt
constexpr size_t kRecentBytes = 1 << 20;
constexpr uint64_t kMostWantedBytes = 16 << 20;  // of a span: then it ends in time

}  // namespace

void InflatePass::FreeDigest::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

InflatePass::InflatePass(std::shared_ptr<const RandomAccessFile> file, Compression compression,
                         InflatePassOptions options)
    : options_(std::move(options)),
      source_(MakeEnterableSource(std::move(file), compression, kChunkBytes)),
      digest_(XXH3_createState()),
      recent_(kRecentBytes) {
  points_.compression = compression;
  points_.spans.push_back({});
  XXH3_64bits_reset(digest_.get());
}

InflatePass::~InflatePass() = default;

uint64_t InflatePass::size() const {
  return source_->ended() ? end() : static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

absl::StatusOr<size_t> InflatePass::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  auto& self = const_cast<InflatePass&>(*this);
  size_t done = 0;
  while (done < out.size()) {
    const uint64_t at = offset + done;
    const size_t want = std::min(out.size() - done, kMostCopied);
    while (end() < at + want && !source_->ended()) MILLRACE_RETURN_IF_ERROR(self.Advance());
    if (at < begin_) return absl::InternalError(absl::StrCat(path(), ": read backwards"));
    if (at >= end()) break;
    const size_t got = std::min<uint64_t>(want, end() - at);
    std::memcpy(&out[done], &recent_[at - begin_], got);
    done += got;
  }
  return done;
}

absl::StatusOr<std::vector<std::byte>> InflatePass::Finish(const IndexKey& key) {
  while (!source_->ended()) MILLRACE_RETURN_IF_ERROR(Advance());
  // The last span has nothing behind it, or was begun at the end and is none.
  if (end() > points_.spans.back().out) EndSpan({});
  points_.spans.pop_back();
  points_.out_bytes = end();
  return EncodePoints(points_, windows_, key);
}

// Inflates a step, and ends the span where the stream can be entered once it is long enough.
absl::Status InflatePass::Advance() {
  MakeRoom();
  const AccessSpan& span = points_.spans.back();
  const uint64_t want = std::clamp(options_.span_bytes, kLeastSpanBytes, kMostWantedBytes);
  const uint64_t out_bytes = end() - span.out;
  const uint64_t in_bytes = source_->consumed() - span.in_bits / 8;
  if (std::max(out_bytes, in_bytes + kChunkBytes) > kMostSpanBytes - kStepBytes) {
    return absl::FailedPreconditionError(absl::StrCat(path(), ": no deflate block begins in ",
                                                      out_bytes, " bytes from ", span.out, " on"));
  }
  const std::span<std::byte> room = std::span(recent_).subspan(filled_, kStepBytes);
  std::optional<InflateEntry> entry;
  size_t got = 0;
  if (out_bytes < want && in_bytes < want) {
    MILLRACE_ASSIGN_OR_RETURN(
        got, source_->Read(room.first(std::min<uint64_t>(room.size(), want - out_bytes))));
  } else {
    MILLRACE_ASSIGN_OR_RETURN(got, source_->ReadToEntry(room, entry));
  }
  Add(got);
  if (entry.has_value() && end() > points_.spans.back().out) EndSpan(*entry);
  return absl::OkStatus();
}

// Drops bytes from the front of recent_ when there is no room for a step.
void InflatePass::MakeRoom() {
  if (recent_.size() - filled_ >= kStepBytes) return;
  constexpr size_t kKeep = kMostCopied + kWindowBytes;
  const size_t drop = filled_ - std::min(filled_, kKeep);
  std::memmove(recent_.data(), &recent_[drop], filled_ - drop);
  begin_ += drop;
  filled_ -= drop;
}

void InflatePass::Add(size_t got) {
  XXH3_64bits_update(digest_.get(), &recent_[filled_], got);
  filled_ += got;
  const uint64_t consumed = source_->consumed();
  if (options_.advanced && (source_->ended() || consumed - told_ >= kChunkBytes)) {
    options_.advanced(consumed - told_);
    told_ = consumed;
  }
}

void InflatePass::EndSpan(const InflateEntry& next) {
  points_.spans.back().digest = XXH3_64bits_digest(digest_.get());
  XXH3_64bits_reset(digest_.get());
  AccessSpan span;
  span.in_bits = next.in_bits;
  span.in_member = next.in_member;
  span.out = end();
  if (next.in_member) {
    const size_t window_bytes = std::min(filled_, kWindowBytes);
    const std::vector<std::byte> packed =
        packer_.Pack({&recent_[filled_ - window_bytes], window_bytes});
    span.window_bytes = static_cast<uint32_t>(packed.size());
    span.window_digest = XXH3_64bits(packed.data(), packed.size());
    windows_.insert(windows_.end(), packed.begin(), packed.end());
  }
  points_.spans.push_back(span);
}

}  // namespace millrace::readers
