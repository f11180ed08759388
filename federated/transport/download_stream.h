// A download at a server: sends the bytes of the api's reader as messages. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include "federated/transport/server_stream.h"

namespace rivulet {

// The stream deletes itself. `shared` must outlive it.
grpc::ServerWriteReactor<grpc::ByteBuffer>* NewDownload(ServedStreams& shared, grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer& request);

}  // namespace rivulet
