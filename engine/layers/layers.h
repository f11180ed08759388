// Layers of models. A layer "conv1" has the variables "conv1/kernel" and "conv1/bias", and its nodes are in the name
// scope "conv1".
//
// A model with dropout or batch normalisation consists of two graphs over the same variables, one for evaluation and
// one for training. Its body runs once for each, with different layers. Both are in one Graph; the first to run creates
// the variables.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/scope.h"
#include "engine/variables/initializers.h"

namespace rivulet {

// Applies an activation by its Keras name: "relu", "tanh", "softmax", …; "linear" and "" return x. NOT_FOUND (in the
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
  std::vector<int64_t> strides = {};  // empty: equal to size
  std::string padding = "SAME";       // or VALID
};

struct BatchNormOptions {
  double momentum = 0.9;  // decay of the running statistics: their weight in each step's average
  double epsilon = 1e-5;
  bool scale = true;
  bool center = true;
};

struct RecurrentInputs;  // engine/layers/recurrent.h
struct RecurrentOptions;
struct RecurrentOutputs;

struct RecurrentLayerOptions {
  bool sequences = false;             // output at every position, instead of the last state only
  std::string direction = "forward";  // or reverse; bidirectional: both, concatenated, each with its own weights
  std::string activation = "tanh";
  std::string recurrent_activation = "sigmoid";  // activation of the gates
  bool reset_after = true;                       // of a GRU, which then has a recurrent_bias
  Initializer kernel = GlorotUniform();
  Initializer recurrent_kernel = Orthogonal();
};

// State shared by the graphs of one model.
struct SharedLayers {
  std::map<std::string, Output, std::less<>> reads;  // reads of variables, by name
  std::vector<std::string> updates;                  // nodes that a training step runs in addition to the gradient
  Output dense_input;                                // input of the last dense layer built so far
  bool differs = false;                              // true once a layer was built that behaves differently in training
};

// Builds layers. Their sizes follow from the input's shape, which must be known except for the batch. Errors go to the
// scope and name the layer; after the first one, every function returns an empty Output.
class Layers {
 public:
  Layers(const Scope& scope, bool training, SharedLayers& shared)
      : scope_(scope), training_(training), shared_(shared) {}
  const Scope& scope() const { return scope_; }
  bool training() const { return training_; }
  // For bodies that add nodes beyond layers: nodes that a training step runs, or that differ in training.
  SharedLayers& shared() const { return shared_; }

  // Computes x [batch, …, in] · kernel [in, units] + bias.
  Output Dense(std::string_view name, Output x, int64_t units, const DenseOptions& options = {});
  // Convolves x [batch, height, width, in] with kernel [height, width, in / groups, filters].
  Output Conv2D(std::string_view name, Output x, int64_t filters, const ConvolutionOptions& options = {});
  // Convolves each channel separately, with kernel [height, width, in, multiplier].
  Output DepthwiseConv2D(std::string_view name, Output x, int64_t multiplier, const ConvolutionOptions& options = {});
  // Transposed convolution with kernel [height, width, filters, in]; groups and dilations must be 1.
  Output Conv2DTranspose(std::string_view name, Output x, int64_t filters, const ConvolutionOptions& options = {});
  // Convolves x [batch, length, in] with kernel [width, in / groups, filters]; lists have one entry.
  Output Conv1D(std::string_view name, Output x, int64_t filters, const ConvolutionOptions& options);

  // x is [batch, height, width, channels], or [batch, length, channels] with lists of one entry.
  Output MaxPool(std::string_view name, Output x, const PoolOptions& options = {});
  Output AvgPool(std::string_view name, Output x, const PoolOptions& options = {});
  // Reduces all axes between batch and channels; the result is [batch, channels].
  Output GlobalMaxPool(std::string_view name, Output x);
  Output GlobalAvgPool(std::string_view name, Output x);

  Output Flatten(std::string_view name, Output x);                                    // [batch, features]
  Output Reshape(std::string_view name, Output x, const std::vector<int64_t>& dims);  // [batch, dims…]
  Output ZeroPad2D(std::string_view name, Output x,
                   const std::vector<int64_t>& amounts);  // rows and columns, on each side
  Output Dropout(std::string_view name, Output x, double rate);
  Output Activation(std::string_view name, Output x, std::string_view activation);
  Output Add(std::string_view name, Output x, Output y, std::string_view activation = "");
  Output Concat(std::string_view name, Output x, Output y);  // along channels

  // Normalises over batch and space in training, and with running statistics in evaluation. Variables: gamma and beta,
  // and moving_mean and moving_variance in the segment "shared".
  Output BatchNorm(std::string_view name, Output x, const BatchNormOptions& options = {});
  Output LayerNorm(std::string_view name, Output x, double epsilon = 1e-5);
  Output GroupNorm(std::string_view name, Output x, int64_t groups, double epsilon = 1e-5);
  Output InstanceNorm(std::string_view name, Output x, double epsilon = 1e-5);

  // Returns a row of the table [vocabulary, units] per token; x is int64 or int32.
  Output Embedding(std::string_view name, Output x, int64_t vocabulary, int64_t units,
                   const Initializer& table = RandomUniform());

  // x is [batch, positions, features]; the result is [batch, units], or [batch, positions, units] with `sequences`.
  // Gates are concatenated in Keras' order. Variables: kernel, recurrent_kernel, bias; names of the backward half begin
  // with "backward_".
  Output Lstm(std::string_view name, Output x, int64_t units, const RecurrentLayerOptions& options = {});
  Output Gru(std::string_view name, Output x, int64_t units, const RecurrentLayerOptions& options = {});
  Output SimpleRnn(std::string_view name, Output x, int64_t units, const RecurrentLayerOptions& options = {});
  // Attends over all positions, or over the current and earlier ones if `causal`. Variables: query_key_value/kernel and
  // /bias (all three concatenated), output/kernel and /bias.
  Output SelfAttention(std::string_view name, Output x, int64_t heads, bool causal);
  // Adds a learned row for each position to x.
  Output Positions(std::string_view name, Output x, const Initializer& initializer = RandomNormal(0, 0.02));

  // Returns the variable "<name>/<variable>" as read in this graph. The first graph that calls this creates it.
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
  // Returns true if sizes, strides and dilations have an entry per axis, and groups divide channels and filters.
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
