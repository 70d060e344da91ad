#include "collectives/core/pending.h"

#include <utility>

namespace millrace::collectives {
namespace {

class Ended final : public Pending {
 public:
  explicit Ended(absl::Status outcome) : outcome_(std::move(outcome)) {}

  bool Poll() override { return true; }
  absl::Status Wait() override { return outcome_; }

 private:
  const absl::Status outcome_;
};

}  // namespace

std::unique_ptr<Pending> MakeEnded(absl::Status outcome) {
  return std::make_unique<Ended>(std::move(outcome));
}

}  // namespace millrace::collectives
