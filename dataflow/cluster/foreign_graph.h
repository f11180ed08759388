// Parts of steps as TensorFlow's master registers them, in the form that graphs have here.
#pragma once

#include <string>

namespace rivulet {

// GraphDef bytes. TensorFlow's rewriter names nodes "_recv_x_0", which no graph of a user may, and knows sends and
// receives of the host's memory as ops of their own. Bytes without either, or that are no GraphDef, come back
// unchanged.
std::string WithoutForeignNames(std::string graph_def);

}  // namespace rivulet
