#include "trainer/backend/cuda/buffers.h"

#include <algorithm>
#include <utility>

namespace millrace::trainer::cuda {
namespace {

// Behind all operations.
constexpr int64_t kEnd = INT64_MAX - 1;

}  // namespace

Part Buffers::Append(Buffer buffer) {
  const size_t bytes = buffer.bytes;
  buffers_.push_back(std::move(buffer));
  return {static_cast<int>(buffers_.size()) - 1, 0, bytes};
}

Part Buffers::Add(const std::string& name, size_t bytes) { return Append({name, bytes}); }

Part Buffers::AddKept(const std::string& name, size_t bytes) {
  return Append({name, bytes, /*is_kept=*/true});
}

Part Buffers::Borrow(const std::string& name, const void* memory, size_t bytes) {
  return Append({name, bytes, /*is_kept=*/true, memory});
}

void Buffers::Grow(const Part& part, size_t bytes) {
  Buffer& buffer = buffers_[part.buffer];
  buffer.bytes = std::max(buffer.bytes, bytes);
}

void Buffers::Use(const Part& part, int64_t time) {
  if (part) buffers_[part.buffer].life.Extend(time);
}

void Buffers::UseAtTheEnd(const Part& part) { Use(part, kEnd); }

void Buffers::KeepWhatCrosses(int64_t from) {
  for (Buffer& buffer : buffers_) {
    if (buffer.life.first < from && buffer.life.last >= from) buffer.life.Extend(kEnd);
  }
}

void Buffers::Plan(bool recycles) {
  std::vector<BufferLife> lives;
  for (const Buffer& buffer : buffers_) {
    const bool is_placed = buffer.borrowed == nullptr && !buffer.life.IsEmpty();
    BufferLife& life = lives.emplace_back();
    if (!is_placed) continue;
    const bool is_whole = buffer.is_kept || !recycles;
    life.bytes = buffer.bytes;
    life.intervals = {is_whole ? Interval{0, kEnd} : buffer.life};
  }
  plan_ = PlanArena(lives);
}

size_t Buffers::kept_bytes() const {
  size_t bytes = 0;
  for (const Buffer& buffer : buffers_) {
    if (buffer.is_kept && buffer.borrowed == nullptr) bytes += buffer.bytes;
  }
  return bytes;
}

std::byte* Buffers::At(const Part& part) const {
  if (!part) return nullptr;
  const void* const borrowed = buffers_[part.buffer].borrowed;
  if (borrowed != nullptr) {
    return static_cast<std::byte*>(const_cast<void*>(borrowed)) + part.begin;
  }
  return arena_ == nullptr ? nullptr : arena_ + plan_.offsets[part.buffer] + part.begin;
}

}  // namespace millrace::trainer::cuda
