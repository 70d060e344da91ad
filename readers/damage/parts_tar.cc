#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/container/container.h"
#include "readers/container/tar_samples.h"
#include "readers/container/tar_walk.h"
#include "readers/damage/parts_walk.h"
#include "readers/file/slice.h"
#include "readers/http/open_files.h"
#include "readers/open_file.h"

// Samples of a tar past damage. The walk stops at the first header that is damaged, tells of the
// whole samples before it, and begins again at the next good one, which lies on a block, or, where
// none does, at any byte: each stretch of the archive is read a few times, with any number of
// damaged places. Archives that were made to be read more often (headers that announce long names,
// samples longer than the limit) run out of budget.

namespace millrace::readers {
namespace {

constexpr uint64_t kTarWindowBytes = 1 << 20;
constexpr uint64_t kLeastWindowBytes = 4 << 10;  // the next header is near, as a rule
constexpr uint64_t kMostTarPasses = 16;
constexpr uint64_t kLeastTarBudget = 1 << 20;
constexpr std::string_view kMagic = "ustar";
constexpr uint64_t kMagicAt = 257;  // in a header

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Counts what is read, each read as a block at least: many small ones cost no less.
class MeteredFile final : public RandomAccessFile {
 public:
  explicit MeteredFile(const RandomAccessFile& file) : file_(file) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    auto got = file_.ReadAt(offset, out);
    bytes_ += std::max<uint64_t>(got.value_or(0), kTarBlock);
    return got;
  }
  uint64_t size() const override { return file_.size(); }
  const std::string& path() const override { return file_.path(); }
  uint64_t bytes() const { return bytes_; }

 private:
  const RandomAccessFile& file_;
  mutable uint64_t bytes_ = 0;
};

class TarPartWalk {
 public:
  TarPartWalk(const PartsInput& input, PartTeller& teller)
      : file_(input.file),
        lost_(input.lost),
        container_(MakeContainer(input.container, /*verify_crc=*/true)),
        max_record_bytes_(input.max_record_bytes),
        teller_(teller) {}

  absl::Status Run() {
    MILLRACE_ASSIGN_OR_RETURN(needs_magic_, BeginsWithMagic());
    while (true) {
      if (from_ < barrier()) {
        MILLRACE_RETURN_IF_ERROR(Pass());
      } else if (next_lost_ < lost_.size()) {
        MILLRACE_RETURN_IF_ERROR(PassLost(from_));
      } else if (from_ == 0 && file_.size() == 0) {
        return Pass();
      } else {
        return absl::OkStatus();
      }
    }
  }

 private:
  // The end of the bytes that are there: the next place where bytes were lost.
  uint64_t barrier() const {
    return next_lost_ < lost_.size() ? lost_[next_lost_].begin : file_.size();
  }
  bool HasBudget() const { return file_.bytes() < kMostTarPasses * file_.size() + kLeastTarBudget; }

  // Goes from from_ to the barrier, or behind the first damage.
  absl::Status Pass() {
    const uint64_t from = from_;
    WalkOptions walk;
    walk.max_record_bytes = max_record_bytes_;
    walk.begins_narrow = from > 0;
    MILLRACE_ASSIGN_OR_RETURN(TarSamples samples, FindTarSamples(*Part(from, barrier()), walk));
    for (uint64_t& begin : samples.begins) begin += from;
    MILLRACE_RETURN_IF_ERROR(Records(samples));
    if (!samples.damage.has_value()) {
      from_ = barrier();
      return absl::OkStatus();
    }
    TarDamage damage = *std::move(samples.damage);
    damage.offset += from;
    damage.go_on_at += from;
    const bool is_cut = damage.reason == RecordErrorReason::kTruncatedHeader ||
                        damage.reason == RecordErrorReason::kTruncatedPayload;
    if (is_cut && next_lost_ < lost_.size()) return PassLost(damage.offset);
    return PassOver(std::move(damage));
  }

  std::shared_ptr<const RandomAccessFile> Part(uint64_t begin, uint64_t end) const {
    return MakeSlice({std::shared_ptr<void>(), &file_}, begin, end - begin, file_.path());
  }

  // Tells of the whole samples.
  absl::Status Records(const TarSamples& samples) {
    const std::vector<uint64_t>& begins = samples.begins;
    const uint64_t count = samples.count();
    uint64_t i = 0;
    if (count > 0 && std::exchange(skip_first_, false)) {
      i = 1;
      MILLRACE_RETURN_IF_ERROR(
          teller_.Damage(begins[0], begins[1] - begins[0], RecordErrorReason::kUnknown,
                         "this sample may lack a member, which is damaged in front of it"));
    }
    std::vector<std::byte> window;
    while (i < count) {
      uint64_t end = i + 1;
      while (end < count && begins[end + 1] - begins[i] <= kTarWindowBytes) ++end;
      window.resize(begins[end] - begins[i]);
      MILLRACE_RETURN_IF_ERROR(ReadFully(file_, begins[i], window));
      for (const uint64_t first = i; i < end; ++i) {
        MILLRACE_RETURN_IF_ERROR(
            Sample(begins[i], std::span<const std::byte>(window).subspan(
                                  begins[i] - begins[first], begins[i + 1] - begins[i])));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Sample(uint64_t offset, std::span<const std::byte> framed) {
    const RecordRef ref = {0, teller_.ordinal(), offset, framed.size()};
    const auto payload = container_->Unframe(file_.path(), ref, framed);
    if (payload.ok()) return teller_.Record(offset, TextOf(framed), *payload);
    const auto error = GetRecordError(payload.status());
    return teller_.Damage(offset, framed.size(),
                          error.has_value() ? error->reason : RecordErrorReason::kUnknown,
                          "a header of this sample is damaged");
  }

  // Tells of the damage, and goes on where that is possible.
  absl::Status PassOver(TarDamage damage) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<uint64_t> next, NextSample(damage));
    if (!next.has_value()) damage.text += GivenUp(damage.go_on_at);
    from_ = next.value_or(barrier());
    skip_first_ = !damage.key.has_value() && from_ < barrier();
    return teller_.Damage(damage.offset, from_ - damage.offset, damage.reason, damage.text);
  }

  // Where the next member lies behind damage that is not of the sample which is damaged anyway; as
  // NextHeader says it.
  absl::StatusOr<std::optional<uint64_t>> NextSample(const TarDamage& damage) {
    uint64_t at = damage.go_on_at;
    while (true) {
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<uint64_t> next, NextMember(at));
      if (!next.has_value() || *next >= barrier() || !damage.key.has_value()) return next;
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<TarMember> member, MemberAt(*next));
      if (!member.has_value()) return next;  // the file changes
      const std::string_view key = member->is_file ? TarSampleKey(member->name) : "";
      if (!key.empty() && key != *damage.key) return next;
      at = *next + member->end;
    }
  }

  absl::StatusOr<std::optional<uint64_t>> NextMember(uint64_t at) {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<uint64_t> next, NextHeader(at));
    if (next != barrier() || barrier() - at <= kTarBlock) return next;
    // Bytes may be missing, or too many: then blocks lie elsewhere.
    MILLRACE_ASSIGN_OR_RETURN(next, FirstHeader(at + 1));
    blocks_from_ = next.value_or(barrier());
    return next;
  }

  // The text for damage behind which no budget is left to look for a header after `seen`.
  std::string GivenUp(uint64_t seen) const {
    return absl::StrCat("; with it go all ", barrier() - seen,
                        " bytes behind it: too much of them would have to be read again and again");
  }

  // Gives up the lost bytes of a stream, with the members that they may have hit from `begin` on.
  // Behind them blocks begin at any byte.
  absl::Status PassLost(uint64_t begin) {
    const LostBytes& lost = lost_[next_lost_++];
    const uint64_t behind = std::min(lost.begin + lost.bytes, barrier());
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<uint64_t> next, FirstHeader(behind));
    from_ = next.value_or(barrier());
    blocks_from_ = from_;
    skip_first_ = from_ < barrier();
    if (next.has_value()) return teller_.Lost(begin, from_ - begin, lost.damage);
    absl::Status damage(lost.damage.code(), absl::StrCat(lost.damage.message(), GivenUp(behind)));
    if (const auto error = GetRecordError(lost.damage)) SetRecordError(damage, *error);
    return teller_.Lost(begin, from_ - begin, damage);
  }

  // Whether the first block has the magic of ustar.
  absl::StatusOr<bool> BeginsWithMagic() const {
    std::array<std::byte, kMagic.size()> bytes = {};
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(kMagicAt, bytes));
    return got == bytes.size() && TextOf(bytes) == kMagic;
  }

  // The member that begins at `at`, its places counted from there; nullopt: none does.
  absl::StatusOr<std::optional<TarMember>> MemberAt(uint64_t at) const {
    const auto part = Part(at, barrier());
    TarWalk walk(*part, max_record_bytes_, /*is_part=*/true, /*begins_narrow=*/true);
    auto member = walk.Next();
    if (member.ok() || !GetRecordError(member.status()).has_value()) return member;
    return std::nullopt;
  }

  // The next good header behind damage; the barrier: there is none. Nullopt: no budget is left.
  absl::StatusOr<std::optional<uint64_t>> NextHeader(uint64_t at) const {
    const uint64_t blocks = (at - blocks_from_ + kTarBlock - 1) / kTarBlock;
    at = blocks_from_ + blocks * kTarBlock;
    std::vector<std::byte> window;
    for (uint64_t wide = kLeastWindowBytes; at + kTarBlock <= barrier();
         wide = std::min(2 * wide, kTarWindowBytes)) {
      if (!HasBudget()) return std::nullopt;
      window.resize(std::min(wide, (barrier() - at) / kTarBlock * kTarBlock));
      MILLRACE_RETURN_IF_ERROR(ReadFully(file_, at, window));
      for (size_t i = 0; i < window.size(); i += kTarBlock, at += kTarBlock) {
        if (!MayBeHeader(TextOf(window).substr(i, kTarBlock))) continue;
        if (!HasBudget()) return std::nullopt;
        MILLRACE_ASSIGN_OR_RETURN(const auto member, MemberAt(at));
        if (member.has_value()) return at;
      }
    }
    return barrier();
  }

  // Where a byte is missing, a header that is read one byte too late has a good checksum now and
  // then, but its magic elsewhere.
  bool MayBeHeader(std::string_view block) const {
    return !needs_magic_ || block.substr(kMagicAt, kMagic.size()) == kMagic;
  }

  // The same where nothing tells where blocks begin: at any byte with the magic.
  absl::StatusOr<std::optional<uint64_t>> FirstHeader(uint64_t at) const {
    std::vector<std::byte> window(std::min(kTarWindowBytes, barrier() - at));
    while (at + kTarBlock <= barrier()) {
      if (!HasBudget()) return std::nullopt;
      const auto room = std::span(window).first(std::min(window.size(), barrier() - at));
      MILLRACE_RETURN_IF_ERROR(ReadFully(file_, at, room));
      const std::string_view bytes = TextOf(room);
      for (size_t magic = bytes.find(kMagic, kMagicAt); magic != bytes.npos;
           magic = bytes.find(kMagic, magic + 1)) {
        const uint64_t header = at + magic - kMagicAt;
        if (header + kTarBlock > barrier()) break;
        if (!HasBudget()) return std::nullopt;
        MILLRACE_ASSIGN_OR_RETURN(const auto member, MemberAt(header));
        if (member.has_value()) return header;
      }
      if (at + room.size() == barrier()) break;
      at += room.size() - kTarBlock;
    }
    return barrier();
  }

  const MeteredFile file_;
  const std::span<const LostBytes> lost_;
  const std::unique_ptr<const Container> container_;
  const uint64_t max_record_bytes_;
  PartTeller& teller_;
  uint64_t from_ = 0;
  uint64_t blocks_from_ = 0;  // a place where a block begins
  size_t next_lost_ = 0;      // of lost_, from from_ on
  bool needs_magic_ = false;  // headers of this archive have the magic of ustar
  bool skip_first_ = false;   // the next sample may lack a member
};

}  // namespace

absl::Status WalkTarParts(const PartsInput& input, PartTeller& teller) {
  return TarPartWalk(input, teller).Run();
}

}  // namespace millrace::readers
