"""Where the bytes of one training step are: a real step of a real model, every storage counted.

Under FakeTensorMode tensors have shapes, types and storages of a size, but no memory behind them, so the
step of a model with billions of parameters is measured on a laptop in seconds.  With ``fake=False`` the same
code runs on real tensors.  Nothing here is computed by formula: those are in ``memory`` and ``activations``.

What is counted is what PyTorch asks for: the storage of each tensor that an operation returns.  Scratch
memory inside a kernel, the CUDA context and the allocator's rounding are not seen; with real tensors on a GPU
the result also carries what the CUDA allocator itself has counted.
"""

from __future__ import annotations

import contextlib
import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib import memory
from course_lib.arguments import one_of, true_or_false, whole_number
from course_lib.storages import key_of, storage_bytes
from course_lib.transformer import ATTENTION, GPT, RECOMPUTE, TransformerConfig, a_config

WEIGHT_COPIES = "weight copies"
_MOST_ELEMENTS = 2**59  # in any one tensor
GRADIENT_CASTS = ("one-at-a-time", "all-at-once")


@dataclass(frozen=True)
class Recipe:
    """How a step computes with Adam: the type of its weights, and what it has beside them.

    ``fp32_gradients``: what backward computes in the weights' type is added up in fp32.
    """

    weights: torch.dtype
    fp32_master: bool = False
    autocast: bool = False
    fp32_gradients: bool = False


# Those of course_lib.memory's recipes that torch's own Adam can follow.
RECIPES = {
    "mixed-adam": Recipe(torch.bfloat16, fp32_master=True),
    "mixed-adam-fp32-grads": Recipe(torch.bfloat16, fp32_master=True, fp32_gradients=True),
    "autocast-adam": Recipe(torch.float32, autocast=True),
    "fp32-adam": Recipe(torch.float32),
    "bf16-adam": Recipe(torch.bfloat16),
}


@dataclass(frozen=True)
class StepMemory:
    """What one training step holds, in bytes.

    After the step: ``weights``, ``gradients``, ``master``, ``moments`` (what ``memory.model_state`` calls
    optimizer), ``step_scalars`` (Adam's step counts, 4 bytes for each parameter tensor) and ``buffers``.
    From forward to backward: ``activations`` by the module that keeps them, "loss" for what comes after the
    model; and ``weight_copies``, the bf16 ones that autocast makes.
    ``curve`` has for each phase of the step all bytes alive, at its start and whenever they change.  With
    several micro-batches there is a "forward 2", a "backward 2", and so on.
    ``cuda_peak``: the CUDA allocator's own count of the most at once, each allocation rounded up to 512
    bytes; None on other devices.
    """

    parameters: int
    weights: int
    gradients: int
    master: int
    moments: int
    step_scalars: int
    buffers: int
    weight_copies: int
    activations: dict[str, int]
    curve: dict[str, list[int]]
    cuda_peak: int | None = None

    @property
    def model_state(self) -> int:
        """Weights, gradients, master and moments together."""
        return self.weights + self.gradients + self.master + self.moments

    @property
    def activation_bytes(self) -> int:
        """All that the forward pass keeps: layers, logits, token numbers; without ``weight_copies``."""
        return sum(self.activations.values())

    @property
    def logits(self) -> int:
        """What the loss keeps: log-probabilities in fp32, 4·batch·sequence·vocab bytes, and 4 more."""
        return self.activations["loss"]

    def layer(self, index: int) -> dict[str, int]:
        """What layer ``index`` keeps, by its child modules; ``""`` is the layer itself."""
        pattern = re.compile(rf"(?:.*\.)?layers\.{index}(?:\.([^.]+).*)?")
        kinds: dict[str, int] = {}
        for path, size in self.activations.items():
            if match := pattern.fullmatch(path):
                kinds[match[1] or ""] = kinds.get(match[1] or "", 0) + size
        return kinds

    @property
    def peaks(self) -> dict[str, int]:
        """The most bytes alive at once in each phase: forward, backward (of each micro-batch), step."""
        return {phase: max(sizes) for phase, sizes in self.curve.items()}

    @property
    def peak(self) -> int:
        """The most bytes alive at once."""
        return max(self.peaks.values())


def training_step(
    config: TransformerConfig,
    batch: int,
    sequence: int,
    recipe: str = "mixed-adam",
    fake: bool = True,
    *,
    micro_batches: int = 1,
    gradient_casts: str = "one-at-a-time",
    attention: str = "fused",
    recompute: str = "none",
    device: str | torch.device = "cpu",
) -> StepMemory:
    """Measure the training step of ``transformer.GPT(config)`` on ``batch`` sequences of ``sequence`` tokens.

    The step measured finds Adam's moments in place, as every step but the first does.
    Gradients are set to None before a forward pass, as PyTorch's ``zero_grad`` does.

    ``micro_batches``: so many times ``batch`` sequences go forward and backward, one after the other, and
    their gradients add up, before the one step of the optimizer.  ``activations`` are those of the last.
    ``gradient_casts`` says how bf16 gradients reach the fp32 master weights: "all-at-once" casts all of them
    and then steps, which holds 4 more bytes per parameter; "one-at-a-time" casts, steps and frees one by one.
    Without master weights there is nothing to cast, and both are the same.
    ``attention`` and ``recompute`` are those of ``transformer.GPT``.
    ``fake=False`` uses real tensors on ``device``, which also may be "cuda"; fake ones follow the CPU's
    kernels.

    Raises ValueError for what is no config, a batch, sequence or number of micro-batches that is not a
    positive whole number, a sequence longer than a table of learned positions, a recipe that is not in
    ``RECIPES``, another unknown name, fake tensors on another device than the CPU, and a device that is not
    there.
    """
    a_config(config)
    batch, sequence = whole_number("batch", batch), config.check_sequence(sequence)
    micro_batches = whole_number("micro_batches", micro_batches)
    _require_addressable(config, batch, sequence)
    _check_names(recipe, gradient_casts, attention, recompute)
    device = _a_device(device, true_or_false("fake", fake))
    with FakeTensorMode() if fake else contextlib.nullcontext():
        with _LiveBytes() as live:
            trainer = _Trainer(config, RECIPES[recipe], gradient_casts, attention, recompute, device)
            trainer.make_moments()
            live.watch_copies(trainer.weights)
            inputs, targets = torch.randint(config.vocab, (2, batch, sequence), device=device)
            with _cuda_peak(device) as cuda_peak:
                activations = trainer.run(inputs, targets, micro_batches, live)
    copies = activations.pop(WEIGHT_COPIES, 0)
    return StepMemory(
        **trainer.sizes(), weight_copies=copies, activations=activations, curve=live.curve,
        cuda_peak=cuda_peak(),
    )


def _require_addressable(config: TransformerConfig, batch: int, sequence: int) -> None:
    """Fake tensors need no memory, but torch counts their bytes in 64 bits."""
    widest = max(config.hidden, 2 * config.ffn, config.vocab, config.heads * sequence)
    if max(config.parameters, batch * sequence * widest) > _MOST_ELEMENTS:
        raise ValueError(
            f"batch={batch}, sequence={sequence} with {config.parameters:,} parameters: expected tensors of "
            f"at most 2**{_MOST_ELEMENTS.bit_length() - 1} elements"
        )


def _check_names(recipe: str, gradient_casts: str, attention: str, recompute: str) -> None:
    if isinstance(recipe, str) and recipe in memory.RECIPES and recipe not in RECIPES:
        measured = ", ".join(map(repr, RECIPES))
        raise ValueError(f"recipe={recipe!r}: expected one that is measured, not computed only: {measured}")
    one_of("recipe", recipe, RECIPES)
    one_of("gradient_casts", gradient_casts, GRADIENT_CASTS)
    one_of("attention", attention, ATTENTION)
    one_of("recompute", recompute, RECOMPUTE)


def _a_device(device: str | torch.device, fake: bool) -> str:
    """``device``, if a step can be measured there.  Else raises ValueError."""
    name = str(device) if isinstance(device, str | torch.device) else ""
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or not (index.isdecimal() or name == kind):
        raise ValueError(f"device={device!r}: expected 'cpu', 'cuda', or one of several such as 'cuda:1'")
    if kind == "cpu":
        return name
    if fake:
        raise ValueError(f"device={name!r}: expected 'cpu' for fake tensors, or fake=False")
    there = torch.cuda.device_count()
    if int(index or 0) >= there:
        raise ValueError(f"device={name!r}: expected one that is there; torch finds {there} CUDA devices")
    return name


class _Trainer:
    """A model, its master weights and its optimizer, and the step that uses them."""

    def __init__(
        self,
        config: TransformerConfig,
        recipe: Recipe,
        gradient_casts: str,
        attention: str,
        recompute: str,
        device: str,
    ):
        self.recipe, self.device = recipe, device
        with torch.device(device):
            self.model = GPT(config, attention=attention, recompute=recompute)
        self.weights = list(self.model.parameters())
        for weight in self.weights:  # Not model.to(), which refuses fake tensors that are being watched
            weight.data = weight.data.to(recipe.weights)
            if recipe.fp32_gradients:
                weight.grad_dtype = torch.float32
        self.master = []
        if recipe.fp32_master:
            self.master = [weight.detach().float().requires_grad_() for weight in self.weights]
        self.optimizer = torch.optim.Adam(self.master or self.weights, lr=1e-4, fused=True)
        self.gradient_casts = gradient_casts

    def make_moments(self) -> None:
        """Adam makes its moments at its first step; zero gradients leave all weights where they are."""
        for weight in self.weights:
            weight.grad = torch.zeros_like(weight, dtype=weight.grad_dtype)
        self.update()

    def run(
        self, inputs: torch.Tensor, targets: torch.Tensor, micro_batches: int, live: _LiveBytes
    ) -> dict[str, int]:
        """One step; returns what a forward pass kept for its backward pass, in bytes by module."""
        self.model.zero_grad()
        for number in range(1, micro_batches + 1):
            which = f" {number}" if number > 1 else ""
            live.begin("forward" + which)
            with _SavedActivations(self.model, live) as saved:
                loss = self.loss(inputs, targets) / micro_batches
                activations = saved.sizes()
            live.begin("backward" + which)
            loss.backward()
        live.begin("step")
        self.update()
        live.end()
        return activations

    def update(self) -> None:
        if not self.master:
            self.optimizer.step()
        elif self.gradient_casts == "all-at-once":
            self.step_all_at_once()
        else:
            self.step_one_at_a_time()

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=self.recipe.autocast):
            logits = self.model(inputs)
        # Not in one line with the model: the bf16 logits end here, and only their fp32 copy stays.
        logits = logits.float()
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten())

    @torch.no_grad()
    def step_all_at_once(self) -> None:
        for weight, master in zip(self.weights, self.master, strict=True):
            master.grad = weight.grad.float()
        self.optimizer.step()
        for weight, master in zip(self.weights, self.master, strict=True):
            weight.copy_(master)
        self.optimizer.zero_grad()

    @torch.no_grad()
    def step_one_at_a_time(self) -> None:
        for weight, master in zip(self.weights, self.master, strict=True):
            master.grad = weight.grad.float()
            self.optimizer.step()  # passes over parameters without a gradient: all but this one
            weight.copy_(master)
            master.grad = None

    def sizes(self) -> dict[str, int]:
        """Bytes held between steps, by kind."""
        state = [(name, value) for states in self.optimizer.state.values() for name, value in states.items()]
        return {
            "parameters": sum(weight.numel() for weight in self.weights),
            "weights": storage_bytes(self.weights),
            "gradients": storage_bytes(weight.grad for weight in self.weights),
            "master": storage_bytes(self.master),
            "moments": storage_bytes(value for name, value in state if name != "step"),
            "step_scalars": storage_bytes(value for name, value in state if name == "step"),
            "buffers": storage_bytes(self.model.buffers()),
        }


class _LiveBytes(TorchDispatchMode):
    """Keeps count of the bytes alive, by watching what each operation returns and when storages end."""

    def __init__(self):
        super().__init__()
        self.live = 0
        self.curve: dict[str, list[int]] = {}
        self._phase: list[int] = []  # outside of phases, changes go nowhere
        self._alive: dict[int, weakref.ref] = {}

        self._weights: set[int] = set()
        self._weight_copies: set[int] = set()

    def watch_copies(self, weights: Iterable[torch.Tensor]) -> None:
        """From now on, know which tensors are casts of ``weights``."""
        self._weights = {key_of(weight.untyped_storage()) for weight in weights}

    def is_weight_copy(self, storage: torch.UntypedStorage) -> bool:
        return key_of(storage) in self._weight_copies

    def begin(self, phase: str) -> None:
        """Start the curve of ``phase``, and end the one before it."""
        self._phase = self.curve[phase] = [self.live]

    def end(self) -> None:
        self._phase = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor):
                self._see(value.untyped_storage())
        if function is torch.ops.aten._to_copy.default and key_of(args[0].untyped_storage()) in self._weights:
            self._weight_copies.add(key_of(result.untyped_storage()))
        return result

    def _see(self, storage: torch.UntypedStorage) -> None:
        key, size = key_of(storage), storage.nbytes()
        if key not in self._alive:
            self._change(size)
            self._alive[key] = weakref.ref(storage, lambda _: self._forget(key, size))

    def _change(self, size: int) -> None:
        self.live += size
        self._phase.append(self.live)

    def _forget(self, key: int, size: int) -> None:
        self._change(-size)
        del self._alive[key]
        self._weight_copies.discard(key)


class _SavedActivations:
    """Notes what autograd saves while it is open, by the module that runs then; "loss" after the model.

    A storage counts once, for the module that saved it first.  Weights and buffers are left out.
    """

    def __init__(self, model: torch.nn.Module, live: _LiveBytes):
        self.model, self.live = model, live
        self.running = ["loss"]
        self.saved: dict[int, tuple[str, torch.UntypedStorage]] = {}
        self.left_out = {key_of(t.untyped_storage()) for t in [*model.parameters(), *model.buffers()]}

    def __enter__(self) -> _SavedActivations:
        self.stack = contextlib.ExitStack()
        for path, module in self.model.named_modules():
            enter = module.register_forward_pre_hook(lambda *_, path=path: self.running.append(path))
            leave = module.register_forward_hook(lambda *_: self.leave())
            self.stack.callback(enter.remove)
            self.stack.callback(leave.remove)
        self.stack.enter_context(saved_tensors_hooks(self.note, lambda tensor: tensor))
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()
        self.saved.clear()  # what is noted stays alive, and the backward pass must be able to free it

    def leave(self) -> None:  # returns None: anything else would replace the module's result
        self.running.pop()

    def note(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if key_of(storage) not in self.left_out:
            where = WEIGHT_COPIES if self.live.is_weight_copy(storage) else self.running[-1]
            self.saved.setdefault(key_of(storage), (where, storage))
        return tensor

    def sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for path, storage in self.saved.values():
            sizes[path] = sizes.get(path, 0) + storage.nbytes()
        return sizes


@contextlib.contextmanager
def _cuda_peak(device: str) -> Iterator[Callable[[], int | None]]:
    """The CUDA allocator's peak, bytes, from here to the call of what this yields; None on other devices."""
    if torch.device(device).type != "cuda":
        yield lambda: None
        return
    torch.cuda.reset_peak_memory_stats(device)

    def read() -> int:
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device)

    yield read
