#ifndef MILLRACE_TRAINER_MODEL_SCIENCE_NETWORKS_H_
#define MILLRACE_TRAINER_MODEL_SCIENCE_NETWORKS_H_

#include <string>

#include "trainer/models.h"

// Networks of physics, as texts of model files. All sizes are given.

namespace millrace::trainer {

// HEP-CNN (Kurth et al. 2017): classes of images of a particle detector.
std::string WriteHepCnn(const NetworkSizes& sizes);

// CosmoGAN (Mustafa et al. 2017), the two models of an adversarial job. Height and width are
// multiples of 16; the generator's noise has 64 values.
std::string WriteCosmoGanGenerator(const NetworkSizes& sizes);
std::string WriteCosmoGanDiscriminator(const NetworkSizes& sizes);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_SCIENCE_NETWORKS_H_
