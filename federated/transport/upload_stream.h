// An upload at a server: passes messages to a writer from the api. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include "federated/transport/server_stream.h"

namespace rivulet {

// The stream deletes itself. `shared` must outlive it.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* NewUpload(ServedStreams& shared,
                                                                       grpc::CallbackServerContext* context);

}  // namespace rivulet
