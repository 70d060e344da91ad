#ifndef MILLRACE_TRAINER_EXPLAIN_MODEL_DOT_H_
#define MILLRACE_TRAINER_EXPLAIN_MODEL_DOT_H_

#include <string>

#include "trainer/model/model.h"

namespace millrace::trainer {

// The model as a graph in the language of Graphviz: `dot -Tsvg` draws it.
std::string ModelDot(const Model& model);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_EXPLAIN_MODEL_DOT_H_
