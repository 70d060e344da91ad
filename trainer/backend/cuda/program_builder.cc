#include "trainer/backend/cuda/program_builder.h"

namespace millrace::trainer::cuda {

void ProgramBuilder::Begin(Phase phase) { phase_ = phase; }

void ProgramBuilder::Add(Draft draft) {
  Access access(buffers_);
  draft.bind(access);
  for (const Part& part : access.reads()) buffers_.Use(part, now_);
  for (const Part& part : access.writes()) buffers_.Use(part, now_);
  ++now_;
  last().drafts.push_back(std::move(draft));
}

void ProgramBuilder::Cut(std::vector<int> gradients) {
  last().gradients = std::move(gradients);
  phases_[static_cast<size_t>(phase_)].emplace_back();
}

void ProgramBuilder::CutForSum(const Part& sums, int64_t channels, bool is_forward) {
  buffers_.Use(sums, now_);
  ++now_;
  last().sums = sums;
  last().channels = channels;
  last().is_forward = is_forward;
  phases_[static_cast<size_t>(phase_)].emplace_back();
}

std::vector<MemoryRange> ProgramBuilder::RangesOf(const std::vector<Part>& parts) const {
  std::vector<MemoryRange> ranges;
  for (const Part& part : parts) {
    ranges.push_back({buffers_.At(part), part.bytes, buffers_.name(part)});
  }
  return ranges;
}

Operation ProgramBuilder::BindOperation(const Draft& draft) const {
  Access access(buffers_);
  Operation operation;
  operation.run = draft.bind(access);
  operation.name = draft.name;
  operation.reads = RangesOf(access.reads());
  operation.writes = RangesOf(access.writes());
  operation.when = draft.when;
  operation.value = draft.value;
  operation.measures = draft.measures;
  return operation;
}

Segment ProgramBuilder::BindSegment(const DraftSegment& segment) const {
  Segment bound;
  for (const Draft& draft : segment.drafts) bound.operations.push_back(BindOperation(draft));
  if (segment.sums) {
    bound.exchange = {RangesOf({segment.sums})[0], segment.channels, segment.is_forward};
  }
  bound.gradients = segment.gradients;
  return bound;
}

std::vector<Segment> ProgramBuilder::BindPhase(Phase phase) const {
  std::vector<Segment> bound;
  for (const DraftSegment& segment : phases_[static_cast<size_t>(phase)]) {
    const bool is_empty = segment.drafts.empty() && segment.gradients.empty() && !segment.sums;
    if (!is_empty) bound.push_back(BindSegment(segment));
  }
  return bound;
}

Program ProgramBuilder::Bind() const {
  Program program;
  program.inputs = BindSegment(phases_[static_cast<size_t>(Phase::kInputs)][0]);
  program.forward = BindPhase(Phase::kForward);
  program.losses = BindSegment(phases_[static_cast<size_t>(Phase::kLosses)][0]);
  program.backward = BindPhase(Phase::kBackward);
  return program;
}

}  // namespace millrace::trainer::cuda
