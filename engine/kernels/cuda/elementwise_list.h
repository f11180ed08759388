// List of the elementwise functions on GPUs, by function and type. Device code makes a kernel of each; adapters
// register it for the op of that name.
#pragma once

#define RIVULET_GPU_FLOATS(M, F) M(F, float) M(F, double)
#define RIVULET_GPU_SIGNED(M, F) RIVULET_GPU_FLOATS(M, F) M(F, int32_t) M(F, int64_t)
#define RIVULET_GPU_NUMBERS(M, F) RIVULET_GPU_SIGNED(M, F) M(F, uint8_t)

#define RIVULET_GPU_UNARY_FUNCTIONS(M) \
  RIVULET_GPU_SIGNED(M, Neg)           \
  RIVULET_GPU_SIGNED(M, Abs)           \
  RIVULET_GPU_SIGNED(M, Sign)          \
  RIVULET_GPU_SIGNED(M, Square)        \
  RIVULET_GPU_FLOATS(M, Sqrt)          \
  RIVULET_GPU_FLOATS(M, Rsqrt)         \
  RIVULET_GPU_FLOATS(M, Reciprocal)    \
  RIVULET_GPU_FLOATS(M, Floor)         \
  RIVULET_GPU_FLOATS(M, Ceil)          \
  RIVULET_GPU_FLOATS(M, Round)         \
  RIVULET_GPU_FLOATS(M, Exp)           \
  RIVULET_GPU_FLOATS(M, Expm1)         \
  RIVULET_GPU_FLOATS(M, Log)           \
  RIVULET_GPU_FLOATS(M, Log1p)         \
  RIVULET_GPU_FLOATS(M, Tanh)          \
  RIVULET_GPU_FLOATS(M, Sigmoid)       \
  RIVULET_GPU_FLOATS(M, Softplus)      \
  RIVULET_GPU_FLOATS(M, Softsign)      \
  RIVULET_GPU_FLOATS(M, Erf)           \
  RIVULET_GPU_FLOATS(M, Relu)          \
  RIVULET_GPU_FLOATS(M, Relu6)         \
  RIVULET_GPU_FLOATS(M, LeakyRelu)     \
  RIVULET_GPU_FLOATS(M, Elu)           \
  RIVULET_GPU_FLOATS(M, Selu)

// Ops with an attribute that chooses the kernel: the named one, and a second.
#define RIVULET_GPU_GELU_FUNCTIONS(M) RIVULET_GPU_FLOATS(M, Gelu) RIVULET_GPU_FLOATS(M, GeluTanh)
#define RIVULET_GPU_GELU_GRAD_FUNCTIONS(M) RIVULET_GPU_FLOATS(M, GeluGrad) RIVULET_GPU_FLOATS(M, GeluTanhGrad)

// Separate: a kernel that includes all others would be larger.
#define RIVULET_GPU_POWERS(M) RIVULET_GPU_FLOATS(M, Pow)

#define RIVULET_GPU_BINARY_FUNCTIONS(M)    \
  RIVULET_GPU_NUMBERS(M, AddV2)            \
  RIVULET_GPU_NUMBERS(M, Sub)              \
  RIVULET_GPU_NUMBERS(M, Mul)              \
  RIVULET_GPU_FLOATS(M, RealDiv)           \
  RIVULET_GPU_FLOATS(M, DivNoNan)          \
  RIVULET_GPU_SIGNED(M, SquaredDifference) \
  RIVULET_GPU_NUMBERS(M, Maximum)          \
  RIVULET_GPU_NUMBERS(M, Minimum)          \
  RIVULET_GPU_FLOATS(M, MulNoNan)          \
  RIVULET_GPU_FLOATS(M, TanhGrad)          \
  RIVULET_GPU_FLOATS(M, SigmoidGrad)       \
  RIVULET_GPU_FLOATS(M, SoftplusGrad)      \
  RIVULET_GPU_FLOATS(M, SqrtGrad)          \
  RIVULET_GPU_FLOATS(M, RsqrtGrad)         \
  RIVULET_GPU_FLOATS(M, ReciprocalGrad)    \
  RIVULET_GPU_FLOATS(M, SoftsignGrad)      \
  RIVULET_GPU_FLOATS(M, ReluGrad)          \
  RIVULET_GPU_FLOATS(M, Relu6Grad)         \
  RIVULET_GPU_FLOATS(M, LeakyReluGrad)     \
  RIVULET_GPU_FLOATS(M, EluGrad)           \
  RIVULET_GPU_FLOATS(M, SeluGrad)

#define RIVULET_GPU_COMPARISONS(M)     \
  RIVULET_GPU_NUMBERS(M, Equal)        \
  RIVULET_GPU_NUMBERS(M, NotEqual)     \
  RIVULET_GPU_NUMBERS(M, Less)         \
  RIVULET_GPU_NUMBERS(M, LessEqual)    \
  RIVULET_GPU_NUMBERS(M, Greater)      \
  RIVULET_GPU_NUMBERS(M, GreaterEqual) \
  M(Equal, bool)                       \
  M(NotEqual, bool)
