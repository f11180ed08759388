#include "engine/models/layer_kinds.h"

namespace rivulet {
namespace {

Setting Count(std::string name, std::optional<int64_t> default_value, std::string doc) {
  return Integer(std::move(name), default_value, std::move(doc)).AtLeast(1).Below(1e9);
}
// One integer for all axes, or one for each.
Setting Sizes(std::string name, std::optional<int64_t> default_value, std::string doc, double minimum = 1) {
  std::optional<std::vector<int64_t>> list;
  if (default_value.has_value()) list.emplace(1, *default_value);
  return Integers(std::move(name), std::move(list), std::move(doc)).Items(1, 8).AtLeast(minimum).Below(1e6);
}
Setting Share(std::string name, std::optional<double> default_value, std::string doc) {
  return Float(std::move(name), default_value, std::move(doc)).AtLeast(0).Below(1);
}

// As many entries as there are axes: a list of one is repeated. A list of another length goes through as it is.
std::vector<int64_t> SizesOf(const Settings& args, std::string_view key, size_t axes) {
  std::vector<int64_t> sizes = args.integers(key);
  if (sizes.size() == 1) sizes.resize(axes, sizes[0]);
  return sizes;
}

Setting ActivationKey() { return Text("activation", "linear", "Activation of the result").OneOf(ActivationNames()); }
Setting PaddingKey() {
  return Text("padding", "valid", "`same`: zeros around, so that only the stride shrinks").OneOf({"valid", "same"});
}
Setting InitializerKey(std::string name, std::string default_value) {
  return Text(std::move(name), std::move(default_value), "First values").OneOf(InitializerNames());
}
Setting Epsilon() { return Share("epsilon", 1e-5, "Added to the variance"); }

std::string Padding(const Settings& args) { return args.text("padding") == "same" ? "SAME" : "VALID"; }

Initializer InitializerOf(const Settings& args, std::string_view key) {
  return InitializerByName(args.text(key)).value();  // one of the key's choices
}

std::vector<Setting> WithWeights(std::vector<Setting> keys) {
  keys.push_back(ActivationKey());
  keys.push_back(Flag("bias", true, "Whether there is one"));
  keys.push_back(InitializerKey("initializer", "glorot_uniform"));
  keys.push_back(InitializerKey("bias_initializer", "zeros"));
  return keys;
}

// Of convolutions over `axes` axes; keys that the kind has not keep the defaults.
ConvolutionOptions ConvolutionOf(const Settings& args, size_t axes, bool dilates, bool groups) {
  ConvolutionOptions options;
  options.size = SizesOf(args, "size", axes);
  options.strides = SizesOf(args, "stride", axes);
  options.dilations = dilates ? SizesOf(args, "dilation", axes) : std::vector<int64_t>(axes, 1);
  if (groups) options.groups = args.integer("groups");
  options.padding = Padding(args);
  options.activation = args.text("activation");
  options.bias = args.flag("bias");
  options.kernel = InitializerOf(args, "initializer");
  options.bias_initializer = InitializerOf(args, "bias_initializer");
  return options;
}

const Setting kSize = Sizes("size", 3, "Height and width of the window"),
              kStride = Sizes("stride", 1, "Steps of the window"),
              kDilation = Sizes("dilation", 1, "Distance of the window's pixels"),
              kGroups = Count("groups", 1, "Parts that channels and filters are divided into");

// Settings that the ops of recurrent layers support.
std::vector<std::string> CellActivationNames() {
  return {"tanh", "sigmoid", "hard_sigmoid", "relu", "softsign", "softplus", "elu", "leaky_relu", "linear"};
}

std::vector<LayerKind> Make() {
  std::vector<LayerKind> kinds;
  const auto add = [&](LayerKind kind) { kinds.push_back(std::move(kind)); };
  add({"dense", "dense", "x · kernel + bias, over the last axis.",
       WithWeights({Count("units", std::nullopt, "Width of the result")}),
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.Dense(name, x, args.integer("units"),
                             {args.text("activation"), args.flag("bias"), InitializerOf(args, "initializer"),
                              InitializerOf(args, "bias_initializer")});
       }});
  add({"conv2d", "conv", "Convolution of [height, width, channels].",
       WithWeights({Count("filters", std::nullopt, "Channels of the result"), kSize, kStride, kDilation, kGroups,
                    PaddingKey()}),
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.Conv2D(name, x, args.integer("filters"), ConvolutionOf(args, 2, true, true));
       }});
  add({"depthwise_conv2d", "depthwise", "Separate convolution of each channel.",
       WithWeights({Count("multiplier", 1, "Results per channel"), kSize, kStride, kDilation, PaddingKey()}),
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.DepthwiseConv2D(name, x, args.integer("multiplier"), ConvolutionOf(args, 2, true, false));
       }});
  add({"conv2d_transpose", "conv_transpose", "Transposed convolution, which enlarges by its stride.",
       WithWeights({Count("filters", std::nullopt, "Channels of the result"), kSize, kStride, PaddingKey()}),
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.Conv2DTranspose(name, x, args.integer("filters"), ConvolutionOf(args, 2, false, false));
       }});
  add({"conv1d", "conv", "Convolution of [length, channels].",
       WithWeights({Count("filters", std::nullopt, "Channels of the result"), kSize, kStride, kDilation, kGroups,
                    PaddingKey()}),
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.Conv1D(name, x, args.integer("filters"), ConvolutionOf(args, 1, true, true));
       }});
  for (const bool max : {true, false}) {
    add({max ? "max_pool" : "avg_pool",
         "pool",
         max ? "Largest value of each window." : "Mean of each window, without its padding.",
         {Sizes("size", 2, "Height and width of the window"), Sizes("stride", 0, "Steps of the window; 0: its size", 0),
          PaddingKey()},
         [max](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
           const size_t axes = x && x.shape().known_rank() && x.shape().rank() == 3 ? 1 : 2;
           PoolOptions options{SizesOf(args, "size", axes), SizesOf(args, "stride", axes), Padding(args)};
           for (size_t i = 0; i < options.strides.size() && i < options.size.size(); ++i)
             if (options.strides[i] == 0) options.strides[i] = options.size[i];
           return max ? layers.MaxPool(name, x, options) : layers.AvgPool(name, x, options);
         }});
    add({max ? "global_max_pool" : "global_avg_pool",
         "pool",
         max ? "Largest value of each channel." : "Mean of each channel.",
         {},
         [max](Layers& layers, const std::string& name, Output x, Output, const Settings&) {
           return max ? layers.GlobalMaxPool(name, x) : layers.GlobalAvgPool(name, x);
         }});
  }
  add({"flatten",
       "flatten",
       "All values of an example in one row.",
       {},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings&) {
         return layers.Flatten(name, x);
       }});
  add({"reshape",
       "reshape",
       "The same values in another shape.",
       {Sizes("shape", std::nullopt, "Of one example")},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.Reshape(name, x, SizesOf(args, "shape", 1));
       }});
  add({"zero_pad",
       "pad",
       "Zeros around [height, width, channels].",
       {Sizes("amount", 1, "Rows and columns on each side", 0)},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.ZeroPad2D(name, x, SizesOf(args, "amount", 2));
       }});
  add({"dropout",
       "dropout",
       "In training, zeroes values by chance and scales the others up.",
       {Share("rate", std::nullopt, "Share that is zeroed")},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.Dropout(name, x, args.number("rate"));
       }});
  add({"activation",
       "activation",
       "A function of each value.",
       {Text("function", "relu", "Which").OneOf(ActivationNames())},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.Activation(name, x, args.text("function"));
       }});
  add({"add",
       "add",
       "Sum with the output of another layer: a residual connection.",
       {Text("with", std::nullopt, "The other layer's name"), ActivationKey()},
       [](Layers& layers, const std::string& name, Output x, Output other, const Settings& args) {
         return layers.Add(name, x, other, args.text("activation"));
       }});
  add({"concat",
       "concat",
       "Channels of another layer's output behind one's own.",
       {Text("with", std::nullopt, "The other layer's name")},
       [](Layers& layers, const std::string& name, Output x, Output other, const Settings&) {
         return layers.Concat(name, x, other);
       }});
  add({"batch_norm",
       "norm",
       "Normalises each channel over the batch in training, by running statistics in evaluation. The statistics are "
       "variables of the shared segment: clients update them and the server averages them.",
       {Share("momentum", 0.9, "Share of the running statistics that survives a step"), Epsilon(),
        Flag("scale", true, "Whether gamma is learnt"), Flag("center", true, "Whether beta is learnt")},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.BatchNorm(
             name, x, {args.number("momentum"), args.number("epsilon"), args.flag("scale"), args.flag("center")});
       }});
  add({"layer_norm",
       "norm",
       "Normalises the last axis.",
       {Epsilon()},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.LayerNorm(name, x, args.number("epsilon"));
       }});
  add({"group_norm",
       "norm",
       "Normalises groups of channels of each example.",
       {Count("groups", 8, "How many"), Epsilon()},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.GroupNorm(name, x, args.integer("groups"), args.number("epsilon"));
       }});
  add({"instance_norm",
       "norm",
       "Normalises each channel of each example.",
       {Epsilon()},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.InstanceNorm(name, x, args.number("epsilon"));
       }});
  add({"embedding",
       "embedding",
       "A learnt row for each integer.",
       {Count("vocabulary", std::nullopt, "Integers are 0 to vocabulary − 1"),
        Count("units", std::nullopt, "Width of a row"), InitializerKey("initializer", "random_uniform")},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.Embedding(name, x, args.integer("vocabulary"), args.integer("units"),
                                 InitializerOf(args, "initializer"));
       }});
  struct RecurrentKind {
    const char* name;
    const char* doc;
    Output (Layers::*build)(std::string_view, Output, int64_t, const RecurrentLayerOptions&);
    bool gated, resets;
  };
  for (const RecurrentKind& kind :
       {RecurrentKind{"lstm", "Long short-term memory over [positions, features].", &Layers::Lstm, true, false},
        RecurrentKind{"gru", "Gated recurrent units over [positions, features].", &Layers::Gru, true, true},
        RecurrentKind{"simple_rnn", "A recurrent layer without gates over [positions, features].", &Layers::SimpleRnn,
                      false, false}}) {
    std::vector<Setting> keys = {
        Count("units", std::nullopt, "Width of the state"),
        Flag("sequences", false, "Whether every position gives its state, not only the last"),
        Text("direction", "forward", "`bidirectional`: both ways, side by side")
            .OneOf({"forward", "reverse", "bidirectional"}),
        Text("activation", "tanh", "Activation of the input to the state").OneOf(CellActivationNames())};
    if (kind.gated)
      keys.push_back(Text("recurrent_activation", "sigmoid", "Of the gates").OneOf(CellActivationNames()));
    if (kind.resets) keys.push_back(Flag("reset_after", true, "Whether the reset gate follows the product"));
    keys.push_back(InitializerKey("initializer", "glorot_uniform"));
    keys.push_back(InitializerKey("recurrent_initializer", "orthogonal"));
    add({kind.name, kind.name, kind.doc, std::move(keys),
         [kind](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
           RecurrentLayerOptions options;
           options.sequences = args.flag("sequences");
           options.direction = args.text("direction");
           options.activation = args.text("activation");
           if (kind.gated) options.recurrent_activation = args.text("recurrent_activation");
           if (kind.resets) options.reset_after = args.flag("reset_after");
           options.kernel = InitializerOf(args, "initializer");
           options.recurrent_kernel = InitializerOf(args, "recurrent_initializer");
           return (layers.*kind.build)(name, x, args.integer("units"), options);
         }});
  }
  add({"self_attention",
       "attention",
       "Every position looks at the others of [positions, features], in heads.",
       {Count("heads", std::nullopt, "Parts that the features are divided into"),
        Flag("causal", false, "Whether a position sees only itself and those before")},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.SelfAttention(name, x, args.integer("heads"), args.flag("causal"));
       }});
  add({"positions",
       "positions",
       "Adds a learnt row for each position of [positions, features].",
       {InitializerKey("initializer", "random_normal")},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         return layers.Positions(name, x, InitializerOf(args, "initializer"));
       }});
  add({"transformer",
       "transformer",
       "A block of self-attention and a GELU network, each behind a layer_norm and beside a residual connection.",
       {Count("heads", std::nullopt, "Parts that the features are divided into"),
        Count("hidden", std::nullopt, "Width of the network"),
        Flag("causal", false, "Whether a position sees only itself and those before"),
        Share("dropout", 0, "Share that is dropped of both results")},
       [](Layers& layers, const std::string& name, Output x, Output, const Settings& args) {
         const auto add = [&](const std::string& part, Output y) {
           y = layers.Dropout(name + "_dropout" + part, y, args.number("dropout"));
           return layers.Add(name + "_add" + part, x, y);
         };
         x = add("1", layers.SelfAttention(name + "_attention", layers.LayerNorm(name + "_norm1", x),
                                           args.integer("heads"), args.flag("causal")));
         if (!x) return Output();
         const int64_t width = x.shape().dim(x.shape().rank() - 1);
         const Output hidden = layers.Dense(name + "_hidden", layers.LayerNorm(name + "_norm2", x),
                                            args.integer("hidden"), {.activation = "gelu"});
         return add("2", layers.Dense(name + "_output", hidden, width));
       }});
  return kinds;
}

}  // namespace

const std::vector<LayerKind>& LayerKinds() {
  static const auto* const kinds = new std::vector<LayerKind>(Make());
  return *kinds;
}

}  // namespace rivulet
