#include <memory>
#include <vector>

#include "trainer/backend/onednn/layer_compiler.h"
#include "trainer/backend/onednn/pool_kernels.h"
#include "trainer/compute/threads.h"

namespace millrace::trainer {

using dnnl::memory;

namespace {

// A max pool of all images of a batch. Memories are empty where a pass does not need them.
struct MaxPoolLayer {
  PoolShape shape;
  int64_t rows = 0;
  int threads = 1;
  bool has_relu = false;
  bool is_half = false;
  memory source;  // may be the batch, whose place is known only when the layer runs
  memory output;
  memory dy;
  memory dx;
  std::vector<uint8_t> places;

  // Calls a kernel with the work on each image.
  void ForEachImage(void (*kernel)(const PoolWork& work));

 private:
  // Image `row` of `values` elements.
  void* At(const memory& images, int64_t row, int64_t values) const {
    if (!images) return nullptr;
    return static_cast<std::byte*>(images.get_data_handle()) + row * values * (is_half ? 2 : 4);
  }
};

void MaxPoolLayer::ForEachImage(void (*kernel)(const PoolWork& work)) {
  RunOnThreads(threads, [&](int thread, int of) {
    const auto [begin, end] = PartOf(rows, thread, of);
    for (int64_t row = begin; row < end; ++row) {
      PoolWork work;
      work.shape = &shape;
      work.source = At(source, row, shape.source_values());
      work.output = At(output, row, shape.out_values());
      work.places = &places[row * shape.out_values()];
      work.dy = At(dy, row, shape.out_values());
      work.dx = At(dx, row, shape.source_values());
      work.has_relu = has_relu;
      kernel(work);
    }
  });
}

std::shared_ptr<MaxPoolLayer> MakeMaxPool(LayerCompiler& compiler) {
  auto pool = std::make_shared<MaxPoolLayer>();
  pool->source = compiler.source();
  pool->output = compiler.output();
  const memory::dims from = pool->source.get_desc().dims();
  const memory::dims to = pool->output.get_desc().dims();
  pool->shape = {from[2], from[3], to[2], to[3], from[1], compiler.layer().window()};
  pool->rows = from[0];
  pool->threads = compiler.threads();
  pool->has_relu = compiler.masks_source();
  pool->is_half = compiler.type() == kHalf;
  pool->places.resize(pool->rows * pool->shape.out_values());
  return pool;
}

}  // namespace

void CompileMaxPool(LayerCompiler& compiler) {
  const auto [height, width] = compiler.layer().window().kernel;
  if (height * width > kMaxPoolPlaces) return CompilePool(compiler);
  const std::shared_ptr<MaxPoolLayer> pool = MakeMaxPool(compiler);
  const PoolKernels& kernels = PoolKernelsOf(pool->is_half);
  compiler.out.forward.AddKernel([pool, &kernels] { pool->ForEachImage(kernels.forward); });
  if (!compiler.is_training()) return;
  pool->dx = compiler.source_gradient();
  pool->dy = compiler.output_gradient();
  if (!pool->dx) return;
  compiler.out.data.AddKernel([pool, &kernels] { pool->ForEachImage(kernels.backward); });
}

}  // namespace millrace::trainer
