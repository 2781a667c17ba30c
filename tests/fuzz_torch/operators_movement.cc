#include <span>

#include "ringrad/autograd/broadcast.h"
#include "ringrad/autograd/flip.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/shape/diagonal.h"
#include "ringrad/autograd/shape/pad.h"
#include "ringrad/autograd/shape/repeat.h"
#include "ringrad/autograd/shape/roll.h"
#include "ringrad/autograd/shape/unfold.h"
#include "ringrad/tests/fuzz_torch/arguments.h"

namespace ringrad::fuzz_torch {
namespace {

using Pieces = std::vector<Tensor>;

Options options_of(Arguments with) { return {.dtype = dtype_of_name(with["dtype"])}; }

Operators makers() {
  return {
      {"zeros",
       [](In, Arguments with) { return zeros(shape_of(with["shape"]), options_of(with)); }},
      {"ones", [](In, Arguments with) { return ones(shape_of(with["shape"]), options_of(with)); }},
      {"full",
       [](In, Arguments with) {
         return full(shape_of(with["shape"]), scalar_of(with["number"]), options_of(with));
       }},
      {"zeros_like", [](In in, Arguments) { return zeros_like(in[0]); }},
      {"ones_like", [](In in, Arguments) { return ones_like(in[0]); }},
      {"full_like",
       [](In in, Arguments with) { return full_like(in[0], scalar_of(with["number"])); }},
      {"arange",
       [](In, Arguments with) {
         return arange(scalar_of(with["start"]), scalar_of(with["end"]), scalar_of(with["step"]));
       }},
      {"linspace",
       [](In, Arguments with) {
         return linspace(scalar_of(with["start"]), scalar_of(with["end"]), with["steps"],
                         options_of(with));
       }},
      {"logspace",
       [](In, Arguments with) {
         return logspace(scalar_of(with["start"]), scalar_of(with["end"]), with["steps"],
                         with["base"], options_of(with));
       }},
      {"eye", [](In, Arguments with) { return eye(with["n"], options_of(with)); }},
  };
}

// A list of ["position", i], ["slice", start, end, step], ["new_axis"], ["ellipsis"].
std::vector<Index> brackets_of(Arguments list) {
  std::vector<Index> result;
  for (Arguments index : list) {
    const std::string kind = index[0];
    if (kind == "position")
      result.push_back(index[1].get<std::int64_t>());
    else if (kind == "slice")
      result.push_back(Slice(whole_or_none(index[1]), whole_or_none(index[2]), index[3]));
    else if (kind == "new_axis")
      result.push_back(kNewAxis);
    else
      result.push_back(kEllipsis);
  }
  return result;
}

Operators views() {
  return {
      {"reshape", [](In in, Arguments with) { return reshape(in[0], shape_of(with["shape"])); }},
      {"flatten",
       [](In in, Arguments with) { return flatten(in[0], with["first"], with["last"]); }},
      {"permute", [](In in, Arguments with) { return permute(in[0], shape_of(with["order"])); }},
      {"transpose",
       [](In in, Arguments with) { return transpose(in[0], with["axis0"], with["axis1"]); }},
      {"slice",
       [](In in, Arguments with) {
         return slice(in[0], with["axis"], with["start"], with["end"], with["step"]);
       }},
      {"select", [](In in, Arguments with) { return select(in[0], with["axis"], with["index"]); }},
      {"brackets",
       [](In in, Arguments with) {
         return in[0][LocatedIndices(std::span<const Index>(brackets_of(with["list"])))];
       }},
      {"squeeze", [](In in, Arguments with) { return squeeze(in[0], shape_of(with["axes"])); }},
      {"unsqueeze", [](In in, Arguments with) { return unsqueeze(in[0], with["axis"]); }},
      {"split",
       [](In in, Arguments with) {
         return split(in[0], with["size"], with["axis"]).at(with["piece"]);
       }},
      {"split_sizes",
       [](In in, Arguments with) {
         const std::vector<std::int64_t> sizes = with["sizes"];
         return split_sizes(in[0], sizes, with["axis"]).at(with["piece"]);
       }},
      {"chunk",
       [](In in, Arguments with) {
         return chunk(in[0], with["count"], with["axis"]).at(with["piece"]);
       }},
      {"expand", [](In in, Arguments with) { return expand(in[0], shape_of(with["shape"])); }},
      {"diagonal",
       [](In in, Arguments with) {
         return diagonal(in[0], with["offset"], with["axis0"], with["axis1"]);
       }},
      {"unfold",
       [](In in, Arguments with) {
         return unfold(in[0], with["axis"], with["size"], with["step"]);
       }},
      {"meshgrid",
       [](In in, Arguments with) {
         return meshgrid(in, with["xy"] ? Indexing::xy : Indexing::ij).at(with["piece"]);
       }},
      {"detach", [](In in, Arguments) { return in[0].detach(); }},
  };
}

PadMode pad_mode_of(Arguments with) {
  const std::string name = with["mode"];
  return name == "reflect"     ? PadMode::reflect
         : name == "replicate" ? PadMode::replicate
                               : PadMode::constant;
}

Operators copies() {
  return {
      {"clone", of(static_cast<Unary>(clone))},
      {"contiguous", of(static_cast<Unary>(contiguous))},
      {"to_layout", [](In in, Arguments) { return to_layout(in[0], Layout::channels_last); }},
      {"to", [](In in, Arguments with) { return to(in[0], dtype_of_name(with["dtype"])); }},
      {"concatenate", [](In in, Arguments with) { return concatenate(in, with["axis"]); }},
      {"stack", [](In in, Arguments with) { return stack(in, with["axis"]); }},
      {"sum_to", [](In in, Arguments with) { return sum_to(in[0], shape_of(with["shape"])); }},
      {"brackets_backwards",
       [](In in, Arguments with) {
         return in[0][{Slice(kNone, kNone, -with["step"].get<std::int64_t>())}];
       }},
      {"tril", [](In in, Arguments with) { return tril(in[0], with["offset"]); }},
      {"triu", [](In in, Arguments with) { return triu(in[0], with["offset"]); }},
      {"flip", [](In in, Arguments with) { return flip(in[0], shape_of(with["axes"])); }},
      {"roll",
       [](In in, Arguments with) {
         return roll(in[0], shape_of(with["shifts"]), shape_of(with["axes"]));
       }},
      {"pad",
       [](In in, Arguments with) {
         const std::vector<std::int64_t> amounts = with["amounts"];
         return pad(in[0], amounts, pad_mode_of(with), scalar_of(with["number"]));
       }},
      {"repeat", [](In in, Arguments with) { return repeat(in[0], shape_of(with["counts"])); }},
      {"tile", [](In in, Arguments with) { return tile(in[0], shape_of(with["counts"])); }},
      {"repeat_interleave",
       [](In in, Arguments with) {
         return repeat_interleave(in[0], with["count"].get<std::int64_t>(),
                                  whole_or_none(with["axis"]));
       }},
      {"repeat_interleave_each",
       [](In in, Arguments with) {
         return repeat_interleave(in[0], indices_of(with), whole_or_none(with["axis"]));
       }},
  };
}

Operators in_place() {
  return {
      {"add_", [](In in, Arguments with) { return add_(in[0], in[1], scalar_of(with["alpha"])); }},
      {"sub_", of(static_cast<Binary>(sub_))},
      {"mul_", of(static_cast<Binary>(mul_))},
      {"div_", of(static_cast<Binary>(div_))},
      {"copy_", of(static_cast<Binary>(copy_))},
      {"add_number_", [](In in, Arguments with) { return add_(in[0], scalar_of(with["number"])); }},
      {"mul_number_", [](In in, Arguments with) { return mul_(in[0], scalar_of(with["number"])); }},
      {"fill_", [](In in, Arguments with) { return fill_(in[0], scalar_of(with["number"])); }},
      {"zero_", of(static_cast<Unary>(zero_))},
      {"assign",
       [](In in, Arguments with) {
         return assign(in[0], std::span<const Index>(brackets_of(with["list"])), in[1]);
       }},
      {"assign_positions",
       [](In in, Arguments with) {
         return assign(in[0], {indices_of(with)}, scalar_of(with["number"]));
       }},
      {"assign_mask",
       [](In in, Arguments with) { return assign(in[0], {in[1]}, scalar_of(with["number"])); }},
  };
}

}  // namespace

Operators movement_operators() {
  Operators result = makers();
  for (Operators some : {views(), copies(), in_place()}) result.merge(some);
  return result;
}

}  // namespace ringrad::fuzz_torch
