// Ranks: threads that run a Python function, processes that ringrun starts, and training on them.

#include <omp.h>

#include <future>
#include <map>

#include "bindings.h"

namespace ringrad::python {
namespace {

std::chrono::nanoseconds seconds(double s, const char* what) {
  RINGRAD_CHECK(s > 0 && s < 1e9, ValueError, caller(), what,
                ": the deadline must be in (0, 1e9) s; got ", s);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * s));
}

// --- What Python holds ---

// A Communicator of Python's. Python may keep it for longer than its group lives, so it has memory
// of its own: another group's communicator may get the address of this one's.
struct PythonCommunicator {
  std::shared_ptr<Communicator> comm;  // not the owner of one that run_ranks has made

  Communicator* operator->() const { return comm.get(); }
};

// Its end waits for collectives that other ranks may need the interpreter's lock to begin.
struct PythonReplica {
  nb::object module, communicator;
  std::shared_ptr<Communicator> comm;
  std::unique_ptr<DistributedDataParallel> model;

  ~PythonReplica() {
    const UnlockedCall counted;
    const Unlocked unlocked;
    model.reset();
    comm.reset();
  }
};

// A member of the module may be the replica itself.
int traverse_replica(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const auto* const replica = nb::inst_ptr<PythonReplica>(self);
  Py_VISIT(replica->module.ptr());
  Py_VISIT(replica->communicator.ptr());
  return 0;
}

int clear_replica(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_destruct(self);
  return 0;
}

// --- Threads ---

struct RunningRank;
thread_local RunningRank* this_rank = nullptr;

// A rank that runs Python now. Used with the interpreter's lock.
struct RunningRank {
  std::vector<RunningRank*>& all;  // for the thread that waits for them
  unsigned long thread = PyThread_get_thread_ident();
  // Objects that stand for the rank's place in groups, in the order in which they were made. They
  // end with the rank; to use them later is a TypeError.
  std::vector<nb::weakref> objects{};

  // Breaks all groups of the rank.
  void abort(const std::string& reason) const {
    for (const nb::weakref& reference : objects)
      if (const nb::object object = reference(); nb::isinstance<PythonCommunicator>(object))
        nb::cast<PythonCommunicator&>(object)->abort(reason);
  }

  // A model ends before its group.
  ~RunningRank() {
    this_rank = nullptr;
    std::erase(all, this);
    for (auto reference = objects.rbegin(); reference != objects.rend(); ++reference)
      if (const nb::object object = (*reference)(); !object.is_none()) nb::inst_destruct(object);
  }
};

nb::object of_this_rank(nb::object object) {
  if (this_rank) this_rank->objects.push_back(nb::weakref(object));
  return object;
}

// Ctrl-C reaches the main thread alone. The ranks that wait for others stop waiting, and those that
// run Python get a KeyboardInterrupt.
void interrupt(const std::vector<RunningRank*>& ranks) {
  for (const RunningRank* rank : ranks) {
    rank->abort("KeyboardInterrupt");
    PyThreadState_SetAsyncExc(rank->thread, PyExc_KeyboardInterrupt);
  }
}

// C++ tells the other ranks why this one fails; Python's exception itself is raised at the end,
// that of the rank that failed first.
nb::list run_python_ranks(int world_size, const nb::callable& body, double deadline) {
  const Where where = caller();
  GroupOptions options;
  options.deadline = seconds(deadline, "run_ranks");
  std::exception_ptr first;
  std::vector<RunningRank*> running;
  std::map<int, nb::object> results;
  const auto run_rank = [&](Communicator& comm) {
    const nb::gil_scoped_acquire locked;
    RunningRank rank{running};
    running.push_back(this_rank = &rank);
    const nb::object ours =
        of_this_rank(nb::cast(PythonCommunicator{{&comm, [](Communicator*) {}}}));
    try {
      results[comm.rank()] = body(ours);
    } catch (nb::python_error& error) {
      if (!first) first = std::current_exception();
      const Error told(concat(nb::str(error.type().attr("__name__")).c_str(), ": ",
                              nb::str(error.value()).c_str()),
                       where);
      rank.abort(told.what());  // before its objects end, which may wait for the other ranks
      throw told;
    }
  };
  const int team = omp_get_max_threads();
  std::future<void> ranks = std::async(std::launch::async, [&] {
    omp_set_num_threads(team);
    run_ranks(world_size, run_rank, options, where);
  });
  const auto ended = [&] {
    const Unlocked unlocked;
    return ranks.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready;
  };
  while (!ended())
    if (PyErr_CheckSignals() != 0) {
      try {
        nb::raise_python_error();
      } catch (const nb::python_error&) {
        if (!first) first = std::current_exception();
      }
      interrupt(running);
    }
  try {
    ranks.get();
  } catch (const Error&) {
    if (!first) throw;
  }
  if (first) std::rethrow_exception(first);
  nb::list in_order;
  for (auto& [rank, result] : results) in_order.append(std::move(result));
  return in_order;
}

// Holds the communicator meanwhile: its rank may end in another thread.
template <class Body>
auto call(const PythonCommunicator& comm, const Body& body) {
  const std::shared_ptr<Communicator> held = comm.comm;
  return called([&](Where where) { return body(*held, where); });
}

}  // namespace

void bind_ranks(nb::module_& m) {
  nb::class_<PythonCommunicator>(
      m, "Communicator", nb::is_weak_referenceable(),
      "A rank's place in a group, and what the group's ranks do together.")
      .def_prop_ro("rank", [](const PythonCommunicator& comm) { return comm->rank(); })
      .def_prop_ro("world_size", [](const PythonCommunicator& comm) { return comm->world_size(); })
      .def(
          "all_reduce",
          [](const PythonCommunicator& comm, const Tensor& x, ReduceOp op) {
            call(comm, [&](Communicator& group, Where where) { group.all_reduce(x, op, where); });
          },
          "tensor"_a, "op"_a.noconvert() = ReduceOp::sum,
          "Replaces the tensor on every rank by the reduction over all ranks, in place.")
      .def(
          "reduce_scatter",
          [](const PythonCommunicator& comm, const Tensor& output, const Tensor& input,
             ReduceOp op) {
            call(comm, [&](Communicator& group, Where where) {
              group.reduce_scatter(output, input, op, where);
            });
          },
          "output"_a, "input"_a, "op"_a.noconvert() = ReduceOp::sum,
          "Reduces `input` over all ranks; rank r receives the r-th of world_size equal parts.")
      .def(
          "all_gather",
          [](const PythonCommunicator& comm, const Tensor& output, const Tensor& input) {
            call(comm,
                 [&](Communicator& group, Where where) { group.all_gather(output, input, where); });
          },
          "output"_a, "input"_a,
          "Concatenates the inputs of all ranks, in rank order, on every rank.")
      .def(
          "broadcast",
          [](const PythonCommunicator& comm, const Tensor& x, int root) {
            call(comm, [&](Communicator& group, Where where) { group.broadcast(x, root, where); });
          },
          "tensor"_a, "root"_a = 0, "Replaces the tensor on every rank by the root's.")
      .def(
          "reduce",
          [](const PythonCommunicator& comm, const Tensor& x, int root, ReduceOp op) {
            call(comm, [&](Communicator& group, Where where) { group.reduce(x, root, op, where); });
          },
          "tensor"_a, "root"_a = 0, "op"_a.noconvert() = ReduceOp::sum,
          "Replaces the root's tensor by the reduction over all ranks; on other ranks it is "
          "scratch.")
      .def(
          "all_to_all",
          [](const PythonCommunicator& comm, const Tensor& output, const Tensor& input) {
            call(comm,
                 [&](Communicator& group, Where where) { group.all_to_all(output, input, where); });
          },
          "output"_a, "input"_a, "Sends the d-th of world_size equal parts of `input` to rank d.")
      .def(
          "barrier",
          [](const PythonCommunicator& comm) {
            call(comm, [&](Communicator& group, Where where) { group.barrier(where); });
          },
          "Returns after every rank has called it.")
      .def(
          "send",
          [](const PythonCommunicator& comm, const Tensor& x, int to) {
            call(comm, [&](Communicator& group, Where where) { group.send(x, to, where); });
          },
          "tensor"_a, "to"_a, "Sends to one rank.")
      .def(
          "recv",
          [](const PythonCommunicator& comm, const Tensor& x, int from) {
            call(comm, [&](Communicator& group, Where where) { group.recv(x, from, where); });
          },
          "tensor"_a, "source"_a, "Receives the next message of a rank into the tensor.")
      .def(
          "split",
          [](const PythonCommunicator& comm, int color, int key) {
            std::shared_ptr<Communicator> made = call(comm, [&](Communicator& group, Where where) {
              return group.split(color, key, where);
            });
            return made ? of_this_rank(nb::cast(PythonCommunicator{std::move(made)})) : nb::none();
          },
          "color"_a, "key"_a = 0,
          nb::sig("def split(self, color: int, key: int = 0) -> Communicator | None"),
          "A new group of the ranks that pass the same color, ordered by key; None for a negative "
          "color.")
      .def(
          "empty_shared",
          [](const PythonCommunicator& comm, const Shape& shape, DType dtype) {
            return call(comm, [&](Communicator& group, Where where) {
              return group.empty_shared(shape, {.dtype = dtype, .device = Device()}, where);
            });
          },
          "shape"_a, "dtype"_a.noconvert() = DType::float32,
          "A tensor that this group's collectives reduce in place.")
      .def("__repr__", [](const PythonCommunicator& comm) {
        return concat("Communicator(rank ", comm->rank(), " of ", comm->world_size(), ")");
      });

  m.def("run_ranks", run_python_ranks, "world_size"_a, "body"_a, nb::kw_only(), "deadline"_a = 60.0,
        nb::sig("def run_ranks(world_size: int, body: collections.abc.Callable[[Communicator], "
                "typing.Any], *, deadline: float = 60.0) -> list[typing.Any]"),
        "Calls body(comm) on world_size threads, one rank each, and returns what each has "
        "returned, in the order of ranks, when all have ended. An exception of a rank ends the "
        "others, and is raised here. `deadline`: the longest that a call waits for other ranks, "
        "s.");
  m.def(
      "join_process_group",
      [](double deadline) {
        ProcessGroupOptions options;
        options.deadline = seconds(deadline, "join_process_group");
        return PythonCommunicator{
            called([&](Where where) { return join_process_group(options, where); })};
      },
      nb::kw_only(), "deadline"_a = 60.0,
      "The communicator of this process among those that `ringrun -n 4 python train.py` has "
      "started.");

  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_replica)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear_replica)},
                                {0, nullptr}};
  nb::class_<PythonReplica>(
      m, "DistributedDataParallel", nb::is_weak_referenceable(), nb::type_slots(slots),
      "Every rank holds the whole model and works on its own part of the batch; "
      "gradients are averaged.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<PythonReplica> self, nn::Module& module,
             const PythonCommunicator& comm, std::int64_t bucket_bytes, Overlap overlap,
             bool allow_unused, bool static_graph) {
            auto model = call(comm, [&](Communicator& group, Where where) {
              return std::make_unique<DistributedDataParallel>(
                  module, group,
                  DistributedDataParallelOptions{.bucket_bytes = bucket_bytes,
                                                 .overlap = overlap,
                                                 .allow_unused = allow_unused,
                                                 .static_graph = static_graph},
                  where);
            });
            new (self.p)
                PythonReplica{nb::find(module), nb::find(comm), comm.comm, std::move(model)};
            of_this_rank(nb::borrow(self.h));
          },
          "module"_a, "comm"_a, nb::kw_only(), "bucket_bytes"_a = 0,
          "overlap"_a.noconvert() = Overlap::automatic, "allow_unused"_a = true,
          "static_graph"_a = false)
      .def(
          "__call__",
          [](const PythonReplica& self, const Tensor& x) {
            return called([&](Where where) { return (*self.model)(x, where); });
          },
          "x"_a, "The module's forward.")
      .def_prop_ro(
          "module", [](const PythonReplica& self) { return self.module; },
          nb::sig("def module(self) -> ringrad.nn.Module"))
      .def(
          "summary", [](const PythonReplica& self) { return printed(self.model->summary()); },
          "What communication has cost so far, and how much of it backward did not wait for.");
  m.def(
      "replicas_identical",
      [](const nn::Module& module, const PythonCommunicator& comm) {
        return call(comm, [&](Communicator& group, Where where) {
          return replicas_identical(module, group, where);
        });
      },
      "module"_a, "comm"_a,
      "True on every rank if all ranks' parameters and buffers are equal bit by bit. Every rank "
      "must call it.");
}

}  // namespace ringrad::python
