// Layers of models. A layer "conv1" has the variables "conv1/kernel" and "conv1/bias" and its nodes in the name scope
// "conv1".
//
// A model with dropout or batch normalisation is two graphs over the same variables, one for evaluation and one for
// training. Its body runs once for each, with different layers. Both are in one Graph; the first to run creates the
// variables.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/scope.h"
#include "engine/variables/initializers.h"

namespace rivulet {

// x under an activation by its Keras name: "relu", "tanh", "softmax", …; "linear" and "" leave it. NOT_FOUND (in the
// scope) names the nearest.
Output Activate(const Scope& scope, Output x, std::string_view activation);
std::vector<std::string> ActivationNames();

struct DenseOptions {
  std::string activation = "";
  bool bias = true;
  Initializer kernel = GlorotUniform();
  Initializer bias_initializer = Zeros();
};

struct ConvolutionOptions {
  std::vector<int64_t> size = {3, 3};  // height, width
  std::vector<int64_t> strides = {1, 1};
  std::vector<int64_t> dilations = {1, 1};
  int64_t groups = 1;
  std::string padding = "SAME";  // or VALID
  std::string activation = "";
  bool bias = true;
  Initializer kernel = GlorotUniform();
  Initializer bias_initializer = Zeros();
};

struct PoolOptions {
  std::vector<int64_t> size = {2, 2};
  std::vector<int64_t> strides = {};  // empty: size
  std::string padding = "SAME";       // or VALID
};

struct BatchNormOptions {
  double momentum = 0.9;  // share of the running statistics that survives a step
  double epsilon = 1e-5;
  bool scale = true;
  bool center = true;
};

struct RecurrentInputs;  // engine/layers/recurrent.h
struct RecurrentOptions;
struct RecurrentOutputs;

struct RecurrentLayerOptions {
  bool sequences = false;             // the output at every position, not only the last state
  std::string direction = "forward";  // reverse; bidirectional: both, side by side, with weights of their own
  std::string activation = "tanh";
  std::string recurrent_activation = "sigmoid";  // of gates
  bool reset_after = true;                       // of a GRU; it has a recurrent_bias then
  Initializer kernel = GlorotUniform();
  Initializer recurrent_kernel = Orthogonal();
};

// What the graphs of one model share.
struct SharedLayers {
  std::map<std::string, Output, std::less<>> reads;  // of variables, by name
  std::vector<std::string> updates;                  // nodes that a training step runs beside the gradient
  Output dense_input;                                // of the last dense layer that has been built
  bool differs = false;                              // a layer that training runs otherwise has been built
};

// Sizes follow from the input's shape, all of which but the batch must be known. Errors go to the scope and name the
// layer; after the first, every function returns an empty Output.
class Layers {
 public:
  Layers(const Scope& scope, bool training, SharedLayers& shared)
      : scope_(scope), training_(training), shared_(shared) {}
  const Scope& scope() const { return scope_; }
  bool training() const { return training_; }
  // For bodies that build more than layers: nodes of their own that a training step runs, or runs otherwise.
  SharedLayers& shared() const { return shared_; }

  // x [batch, …, in] · kernel [in, units] + bias
  Output Dense(std::string_view name, Output x, int64_t units, const DenseOptions& options = {});
  // x [batch, height, width, in] with kernel [height, width, in / groups, filters]
  Output Conv2D(std::string_view name, Output x, int64_t filters, const ConvolutionOptions& options = {});
  // Each channel by itself, kernel [height, width, in, multiplier].
  Output DepthwiseConv2D(std::string_view name, Output x, int64_t multiplier, const ConvolutionOptions& options = {});
  // kernel [height, width, filters, in]; groups and dilations are 1.
  Output Conv2DTranspose(std::string_view name, Output x, int64_t filters, const ConvolutionOptions& options = {});
  // x [batch, length, in] with kernel [width, in / groups, filters]; lists have one entry.
  Output Conv1D(std::string_view name, Output x, int64_t filters, const ConvolutionOptions& options);

  // x [batch, height, width, channels], or [batch, length, channels] with lists of one entry
  Output MaxPool(std::string_view name, Output x, const PoolOptions& options = {});
  Output AvgPool(std::string_view name, Output x, const PoolOptions& options = {});
  // Over all axes between batch and channels: [batch, channels].
  Output GlobalMaxPool(std::string_view name, Output x);
  Output GlobalAvgPool(std::string_view name, Output x);

  Output Flatten(std::string_view name, Output x);                                    // [batch, features]
  Output Reshape(std::string_view name, Output x, const std::vector<int64_t>& dims);  // [batch, dims…]
  Output ZeroPad2D(std::string_view name, Output x,
                   const std::vector<int64_t>& amounts);  // rows, columns, on each side
  Output Dropout(std::string_view name, Output x, double rate);
  Output Activation(std::string_view name, Output x, std::string_view activation);
  Output Add(std::string_view name, Output x, Output y, std::string_view activation = "");
  Output Concat(std::string_view name, Output x, Output y);  // along channels

  // Over batch and space in training, by running statistics in evaluation: variables gamma and beta, and moving_mean
  // and moving_variance of the shared segment.
  Output BatchNorm(std::string_view name, Output x, const BatchNormOptions& options = {});
  Output LayerNorm(std::string_view name, Output x, double epsilon = 1e-5);
  Output GroupNorm(std::string_view name, Output x, int64_t groups, double epsilon = 1e-5);
  Output InstanceNorm(std::string_view name, Output x, double epsilon = 1e-5);

  // One row of [vocabulary, units] per token; x is int64 or int32.
  Output Embedding(std::string_view name, Output x, int64_t vocabulary, int64_t units,
                   const Initializer& table = RandomUniform());

  // x [batch, positions, features]; the result is [batch, units], or [batch, positions, units] of `sequences`. Gates
  // lie side by side in Keras' order. Variables: kernel, recurrent_kernel, bias; the backward half's begin with
  // "backward_".
  Output Lstm(std::string_view name, Output x, int64_t units, const RecurrentLayerOptions& options = {});
  Output Gru(std::string_view name, Output x, int64_t units, const RecurrentLayerOptions& options = {});
  Output SimpleRnn(std::string_view name, Output x, int64_t units, const RecurrentLayerOptions& options = {});
  // Heads over all positions, or those up to one's own where `causal`. Variables: query_key_value/kernel and /bias, of
  // the three side by side, output/kernel and /bias.
  Output SelfAttention(std::string_view name, Output x, int64_t heads, bool causal);
  // x + a learnt row for each position.
  Output Positions(std::string_view name, Output x, const Initializer& initializer = RandomNormal(0, 0.02));

  // The variable "<name>/<variable>" as read in this graph, created by the first graph that asks.
  Output Weight(const Scope& layer, std::string_view name, std::string_view variable, const Shape& shape,
                const Initializer& initializer, std::string_view segment = "trainable");

 private:
  struct RecurrentCell {
    std::string_view kind;
    int64_t gates;
    RecurrentOutputs (*build)(const Scope&, const RecurrentInputs&, const RecurrentOptions&);
  };
  Output Recurrent(std::string_view name, Output x, int64_t units, const RecurrentLayerOptions& options,
                   const RecurrentCell& cell);
  bool Check(std::string_view name, Output x, int rank, std::string_view kind) const;
  // Whether sizes, strides and dilations have an entry per axis, and channels and filters divide into the groups.
  bool CheckWindow(std::string_view name, const ConvolutionOptions& options, size_t axes, int64_t in,
                   int64_t filters) const;
  Output Biased(const Scope& layer, std::string_view name, Output x, int64_t width, bool bias,
                const Initializer& initializer, std::string_view activation);
  Output Pool(std::string_view op, std::string_view name, Output x, const PoolOptions& options);
  Output ReduceSpace(std::string_view op, std::string_view name, Output x);

  Scope scope_;
  bool training_;
  SharedLayers& shared_;
};

}  // namespace rivulet
