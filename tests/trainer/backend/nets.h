#ifndef MILLRACE_TESTS_TRAINER_BACKEND_NETS_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_NETS_H_

// Models for the tests of backends.

namespace millrace::trainer {

// Every kind of layer but a transposed convolution, every fusion, values with several readers, and
// several losses, two of them of one value.
inline constexpr char kEveryLayer[] = R"(
    layer { name: "in" input_layer { shape: [8, 8, 3] } }
    layer { name: "stem" input: "in" convolution { filters: 8 kernel: 3 padding: 1 bias: false } }
    layer { name: "n1" batch_norm {} } layer { name: "r1" relu {} }
    layer { name: "pool" pool { kernel: 3 stride: 2 padding: 1 } }
    layer { name: "c2" input: "pool" convolution { filters: 8 kernel: 1 } }
    layer { name: "n2" batch_norm {} }
    layer { name: "a2" input: ["pool", "n2"] add {} } layer { name: "r2" relu {} }
    layer { name: "gate" input: "r2" convolution { filters: 8 kernel: 1 groups: 2 } }
    layer { name: "sigmoid" sigmoid {} }
    layer { name: "gated" input: ["r2", "sigmoid"] multiply {} }
    layer { name: "down" input: "gated" convolution { filters: 4 kernel: 3 stride: 2 padding: 1 } }
    layer { name: "six" relu6 {} }
    layer { name: "mean" input: "gated" pool { kind: AVERAGE kernel: 2 } }
    layer { name: "leaky" leaky_relu { slope: 0.2 } }
    layer { name: "all" input: ["six", "leaky", "six"] concat {} }
    layer { name: "silu" silu {} }
    layer { name: "sum" input: ["all", "silu", "all"] add {} }
    layer { name: "drop" input: "sum" dropout { rate: 0.2 } }
    layer { name: "flat" reshape {} }
    layer { name: "h" fully_connected { outputs: 12 } } layer { name: "rh" relu {} }
    layer { name: "vectors" batch_norm {} }
    layer { name: "tanh" tanh {} }
    layer { name: "classes" fully_connected { outputs: 4 } }
    layer { name: "l1" input: "classes" softmax_cross_entropy {} }
    layer { name: "l2" input: "classes" softmax_cross_entropy { label_smoothing: 0.1 weight: 0.5 } }
    layer { name: "global" input: "sum" global_average_pool {} }
    layer { name: "other" fully_connected { outputs: 4 bias: false } }
    layer { name: "l3" input: "other" softmax_cross_entropy { weight: 0.25 } })";

inline constexpr char kTransposed[] = R"(
    layer { name: "in" input_layer { shape: [3, 3, 4] } }
    layer { name: "up" transposed_convolution { filters: 6 kernel: 3 stride: 2 } }
    layer { name: "r" relu {} }
    layer { name: "up2" input: "r" transposed_convolution { filters: 6 kernel: 1 bias: false } }
    layer { name: "s" input: ["up2", "r"] add {} }
    layer { name: "classes" fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })";

// Two convolutions and another layer read the image; in 16 bits devices fold it for the former.
inline constexpr char kTwoStems[] = R"(
    layer { name: "in" input_layer { shape: [12, 8, 3] } }
    layer { name: "stem" input: "in" convolution { filters: 8 kernel: 7 stride: 2 padding: 3
      bias: false } }
    layer { name: "n1" batch_norm {} } layer { name: "r1" relu {} }
    layer { name: "other" input: "in" convolution { filters: 5 kernel: [4, 2] stride: 2
      padding: [1, 0] } }
    layer { name: "r2" relu {} }
    layer { name: "mean" input: "in" pool { kind: AVERAGE kernel: 2 } }
    layer { name: "all" input: ["r1", "r2", "mean"] concat {} }
    layer { name: "classes" fully_connected { outputs: 4 } }
    layer { softmax_cross_entropy {} })";

// Networks that are joined to others at their inputs.
inline constexpr char kPlain[] = R"(layer { input_layer { shape: [6, 6, 2] } }
    layer { convolution { filters: 4 kernel: 5 stride: 2 same: true } }
    layer { leaky_relu { slope: 0.2 } }
    layer { convolution { filters: 3 kernel: 3 padding: 1 } } layer { relu {} }
    layer { fully_connected { outputs: 1 } } layer { sigmoid_cross_entropy {} })";
inline constexpr char kSmooth[] = R"(layer { input_layer { shape: [6, 6, 2] } }
    layer { convolution { filters: 4 kernel: 5 stride: 2 same: true } } layer { tanh {} }
    layer { convolution { filters: 3 kernel: 3 padding: 1 } } layer { silu {} }
    layer { fully_connected { outputs: 1 } } layer { sigmoid_cross_entropy {} })";
inline constexpr char kNormed[] = R"(layer { input_layer { shape: [6, 6, 2] } }
    layer { convolution { filters: 4 kernel: 3 } } layer { batch_norm {} }
    layer { leaky_relu { slope: 0.2 } }
    layer { fully_connected { outputs: 1 } } layer { sigmoid_cross_entropy {} })";
inline constexpr char kInputHasTwoReaders[] =
    R"(layer { name: "in" input_layer { shape: [4, 4, 3] } }
    layer { name: "a" input: "in" convolution { filters: 3 kernel: 3 padding: 1 } }
    layer { name: "sum" input: ["a", "in"] add {} } layer { tanh {} }
    layer { fully_connected { outputs: 1 } } layer { sigmoid_cross_entropy {} })";

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_NETS_H_
