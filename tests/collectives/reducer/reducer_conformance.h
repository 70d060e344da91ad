#ifndef MILLRACE_TESTS_COLLECTIVES_REDUCER_REDUCER_CONFORMANCE_H_
#define MILLRACE_TESTS_COLLECTIVES_REDUCER_REDUCER_CONFORMANCE_H_

// What the gradient reducer must do over every backend.

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "collectives/agreed.h"
#include "collectives/gradient_reducer.h"
#include "tests/collectives/communicator_conformance.h"
#include "tests/collectives/reducer/reducer_steps.h"

namespace millrace::collectives {

// INVALID_ARGUMENT whose text has every one of `parts`.
inline absl::Status ExpectInvalid(const absl::Status& status,
                                  const std::vector<std::string>& parts) {
  bool good = absl::IsInvalidArgument(status);
  for (const std::string& part : parts) {
    good = good && ToStd(status.message()).find(part) != std::string_view::npos;
  }
  return good ? absl::OkStatus() : Fail(absl::StrCat("got ", status.ToString()));
}

class ReducerConformance : public CommunicatorConformance {
 protected:
  // Makes reducers from what `change` makes of the common plan on each rank, and expects every rank
  // to name all of `parts`.
  void ExpectDisagreement(
      const std::function<void(int rank, std::vector<GradientSpec>&, ReducerOptions&)>& change,
      const std::vector<std::string>& parts) {
    RunOk([&](Communicator& comm) {
      if (comm.size() < 2) return absl::OkStatus();
      std::vector<GradientSpec> gradients = SomeGradients();
      ReducerOptions options = SmallBuckets();
      change(comm.rank(), gradients, options);
      const absl::Status status = GradientReducer::Make(comm, gradients, options).status();
      if (!IsAgreed(status)) return Fail("the error does not say that all ranks have it");
      return ExpectInvalid(status, parts);
    });
  }
};

TEST_P(ReducerConformance, SumsEqualTheSerialOnesInAnyOrderOfReadiness) {
  RunOk([](Communicator& comm) {
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                              GradientReducer::Make(comm, SomeGradients(), SmallBuckets()));
    if (reducer->num_buckets() < 3) return Fail("too few buckets for this test");
    std::vector<size_t> order(SomeGradients().size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(comm.rank() + 1);  // another order on every rank
    for (int step = 0; step < 10; ++step) {
      MILLRACE_RETURN_IF_ERROR(StepInOrder(comm, *reducer, order, step));
      if (step == 0) std::reverse(order.begin(), order.end());
      if (step > 0) std::shuffle(order.begin(), order.end(), random);
    }
    return comm.Barrier();
  });
}

TEST_P(ReducerConformance, GradientsAreAlignedAndApart) {
  RunOk([](Communicator& comm) {
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, GradientReducer::Make(comm, SomeGradients()));
    for (size_t i = 0; i < SomeGradients().size(); ++i) {
      const std::span<float> gradient = reducer->gradient(i).as<float>();
      if (reinterpret_cast<uintptr_t>(gradient.data()) % 64 != 0) return Fail("alignment");
      if (gradient.size() != static_cast<size_t>(SomeGradients()[i].shape.num_elements())) {
        return Fail("size");
      }
      for (float& value : gradient) {
        if (value != 0) return Fail("not zero, or shared with another gradient");
        value = 1;
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(ReducerConformance, MissingAndRepeatedGradientsAreNamed) {
  RunOk([](Communicator& comm) {
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, GradientReducer::Make(comm, SomeGradients()));
    for (size_t i = 0; i < SomeGradients().size(); ++i) {
      if (i != 3) MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(i));
    }
    const absl::Status missing = reducer->Finish();
    if (!absl::IsFailedPrecondition(missing) ||
        ToStd(missing.message()).find("bn/gamma") == std::string_view::npos) {
      return Fail(absl::StrCat("missing: ", missing.ToString()));
    }
    const absl::Status repeated = reducer->MarkReady(1);
    if (!absl::IsFailedPrecondition(repeated) ||
        ToStd(repeated.message()).find("fc/kernel") == std::string_view::npos) {
      return Fail(absl::StrCat("repeated: ", repeated.ToString()));
    }
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(3));  // the step is still open
    return reducer->Finish();
  });
}

TEST_P(ReducerConformance, AnotherShapeNamesRankAndTensor) {
  ExpectDisagreement(
      [](int rank, auto& gradients, auto&) {
        if (rank == 1) gradients[2].shape = Shape{3, 3, 8, 17};
      },
      {"ranks 0 and 1", "'conv2/kernel'", "[3, 3, 8, 16] on rank 0", "[3, 3, 8, 17] on rank 1"});
}

TEST_P(ReducerConformance, AnotherTypeNamesRankAndTensor) {
  ExpectDisagreement(
      [](int rank, auto& gradients, auto&) {
        if (rank == 1) gradients[2].dtype = DType::kF16;
      },
      {"ranks 0 and 1", "'conv2/kernel'", "float32 [3, 3, 8, 16] on rank 0",
       "float16 [3, 3, 8, 16] on rank 1"});
}

TEST_P(ReducerConformance, AMissingTensorIsNamed) {
  ExpectDisagreement(
      [](int rank, auto& gradients, auto&) {
        if (rank >= 1) gradients.erase(gradients.begin() + 3);
      },
      {"ranks 0 and 1", "'bn/gamma'", "is missing on rank 1"});
}

TEST_P(ReducerConformance, AnExtraTensorAtTheEndIsNamed) {
  ExpectDisagreement(
      [](int rank, auto& gradients, auto&) {
        if (rank == 1) gradients.push_back({"extra", {4}});
      },
      {"'extra'", "is missing on rank 0"});
}

TEST_P(ReducerConformance, AnotherOrderNamesTheFirstTensor) {
  ExpectDisagreement(
      [](int rank, auto& gradients, auto&) {
        if (rank == 0) std::swap(gradients[1], gradients[2]);
      },
      {"ranks 0 and 1", "tensor 1 is 'conv2/kernel' on rank 0 and 'fc/kernel' on rank 1"});
}

// All that have to be equal over every backend.
TEST_P(ReducerConformance, AnotherOptionIsNamed) {
  struct Other {
    std::function<void(ReducerOptions&)> change;
    const char* named;
  };
  const Other others[] = {
      {[](auto& o) { o.bucket_bytes = 5001; }, "bucket_bytes is 5000 on rank 0 and 5001"},
      {[](auto& o) { o.edge_bucket_bytes = 999; }, "edge_bucket_bytes is 1000 on rank 0 and 999"},
      {[](auto& o) { o.exact = true; }, "exact is false on rank 0 and true"},
      {[](auto& o) { o.average_by_rows = true; }, "average_by_rows is false on rank 0 and true"},
      {[](auto& o) { o.skip_non_finite = true; }, "skip_non_finite is false on rank 0 and true"},
      {[](auto& o) { o.clip_norm = 0.25; }, "clip_norm is 0 on rank 0 and 0.25"},
      {[](auto& o) { o.shard = true; }, "shard is false on rank 0 and true"},
      {[](auto& o) { o.micro_batches = 2; }, "micro_batches is 1 on rank 0 and 2"},
      {[](auto& o) { o.wire = DType::kBF16; }, "wire is float32 on rank 0 and bfloat16"},
  };
  for (const Other& other : others) {
    ExpectDisagreement(
        [&other](int rank, auto&, auto& options) {
          if (rank == 1) other.change(options);
        },
        {absl::StrCat("option ", other.named, " on rank 1")});
  }
}

TEST_P(ReducerConformance, ARankThatCannotPlanIsNamedByAll) {
  ExpectDisagreement(
      [](int rank, auto& gradients, auto&) {
        if (rank == 1) gradients[4].name = "stem";
      },
      {"'stem' is used twice"});
}

TEST_P(ReducerConformance, TheLowestDifferingRankIsNamed) {
  RunOk([](Communicator& comm) {
    if (comm.size() < 4) return absl::OkStatus();
    std::vector<GradientSpec> gradients = SomeGradients();
    if (comm.rank() >= 2) gradients[0].shape = Shape{comm.rank()};
    return ExpectInvalid(GradientReducer::Make(comm, gradients).status(),
                         {"ranks 0 and 2", "'fc/bias'", "[10] on rank 0", "[2] on rank 2"});
  });
}

TEST_P(ReducerConformance, BadShapesAndOptionsAreRefused) {
  RunOk([](Communicator& comm) {
    MILLRACE_RETURN_IF_ERROR(ExpectInvalid(
        GradientReducer::Make(comm, {{"open", {Shape::kUnknown}}}).status(), {"'open'"}));
    constexpr int64_t kHuge = int64_t{1} << 40;
    MILLRACE_RETURN_IF_ERROR(ExpectInvalid(
        GradientReducer::Make(comm, {{"huge", {kHuge, kHuge}}}).status(), {"'huge'"}));
    ReducerOptions options;
    options.edge_bucket_bytes = 0;
    return ExpectInvalid(GradientReducer::Make(comm, SomeGradients(), options).status(),
                         {"edge_bucket_bytes"});
  });
}

TEST_P(ReducerConformance, GradientsInTheCallersMemoryHaveTheSameBits) {
  ReducerOptions plain;
  plain.bucket_bytes = 500000;
  ReducerOptions averaged = plain;
  averaged.average_by_rows = true;
  averaged.clip_norm = 1;
  averaged.micro_batches = 2;
  ReducerOptions sharded = plain;
  sharded.shard = true;
  sharded.skip_non_finite = true;
  for (ReducerOptions options : {plain, averaged, sharded}) {
    for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
      options.policy = policy;
      RunOk([&options](Communicator& comm) {
        const absl::Status status = CompareUserBuffersWithOwned(comm, options);
        if (comm.on_device() == nullptr || options.policy != ProgressPolicy::kThread) return status;
        return absl::IsUnimplemented(status) ? absl::OkStatus() : Fail(status.ToString());
      });
    }
  }
}

TEST_P(ReducerConformance, MemoryThatDoesNotFitIsNamed) {
  const auto expect = [this](const std::function<void(std::vector<TensorView>&)>& change,
                             const std::vector<std::string>& parts) {
    RunOk([&](Communicator& comm) {
      UserGradients memory(OddGradients());
      std::vector<TensorView> views = memory.views();
      change(views);
      return ExpectInvalid(GradientReducer::Make(comm, OddGradients(), views).status(), parts);
    });
  };
  expect([](auto& views) { views[1].shape = Shape{34}; }, {"'b'", "[34]", "[33]"});
  expect([](auto& views) { views[2].dtype = DType::kBF16; }, {"'c'", "bfloat16", "float16"});
  expect([](auto& views) { views[3].data = nullptr; }, {"'d'", "there is none"});
  expect([](auto& views) { views[4].data = static_cast<std::byte*>(views[4].data) + 1; },
         {"'e'", "not aligned"});
  expect([](auto& views) { views[9].data = views[1].data; }, {"'b'", "overlaps", "'last'"});
  expect([](auto& views) { views.pop_back(); }, {"'last'", "missing"});
}

TEST_P(ReducerConformance, ARankThatBringsMemoryAloneIsNamed) {
  RunOk([](Communicator& comm) {
    if (comm.size() < 2) return absl::OkStatus();
    UserGradients memory(OddGradients());
    const absl::Status status =
        comm.rank() == 1 ? GradientReducer::Make(comm, OddGradients(), memory.views()).status()
                         : GradientReducer::Make(comm, OddGradients()).status();
    return ExpectInvalid(status, {"option memory is the reducer's on rank 0", "rank 1"});
  });
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_REDUCER_REDUCER_CONFORMANCE_H_
