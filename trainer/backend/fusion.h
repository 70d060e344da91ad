#ifndef MILLRACE_TRAINER_BACKEND_FUSION_H_
#define MILLRACE_TRAINER_BACKEND_FUSION_H_

#include <cstddef>
#include <vector>

#include "trainer/model/model.h"

namespace millrace::trainer {

// Who makes and who reads the values of a model.
class Wiring {
 public:
  // A layer that reads a value; losses count as layers behind the last.
  struct Reader {
    size_t layer = 0;
    size_t slot = 0;
  };

  explicit Wiring(const Model& model);

  const std::vector<Reader>& readers(int value) const { return readers_[value]; }
  // The layer that makes the value; -1: an input.
  int maker(int value) const { return makers_[value]; }
  // The layer that alone reads the value; -1: there are several, or a loss.
  int only_reader(int value) const;

 private:
  size_t layers_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<int> makers_;
};

// The layers behind a batch norm that are done in its own passes: norm, addition, ReLU.
struct FusedNorm {
  int add = -1;     // layer; -1: none
  int addend = -1;  // value: the other term
  int relu = -1;    // layer; -1: none
};

// What the layers of a model do for others.
class Fusion {
 public:
  // `is_on` false: every layer works for itself, but for a ReLU behind a convolution or a product.
  Fusion(const Model& model, const Wiring& wiring, bool is_on);

  // The fused layers of batch norm `i`.
  const FusedNorm& norm(size_t i) const { return norms_[i]; }
  // The batch norm that does the work of layer `i`; -1: none.
  int host(size_t i) const { return hosts_[i]; }

 private:
  void FuseNorm(const Model& model, const Wiring& wiring, int norm);

  std::vector<FusedNorm> norms_;  // by layer
  std::vector<int> hosts_;        // by layer
};

// The convolution or product that applies ReLU `i` of `model`, if it may; -1: none.
int HostOfRelu(const Model& model, const Wiring& wiring, int i);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_FUSION_H_
