// Parts of steps as TensorFlow's master registers them, in the form that graphs have here.
#pragma once

#include <string>

namespace rivulet {

// GraphDef bytes. TensorFlow's rewriter names nodes "_recv_x_0", which no graph of a user may, and knows sends and
// receives of the host's memory as ops of their own. It also makes one node of a chain of unary ops
// (_UnaryOpsComposition), which is a chain again here. Bytes without any of it, or that are no GraphDef, come back
// unchanged.
std::string WithoutForeignNodes(std::string graph_def);

}  // namespace rivulet
