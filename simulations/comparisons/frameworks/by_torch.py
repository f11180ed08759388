"""The loop that one would write in PyTorch: no framework, nothing checked or kept."""
import rows
import torch
import torch_models


def main():
    work, clock, result = rows.asked(), rows.Clock(), None
    torch.set_num_threads(rows.cores())
    torch.manual_seed(1)
    images, labels = torch_models.tensors(work, "train")
    test = torch_models.tensors(work, "test") if work.every else None
    shares = torch.from_numpy(work.shares())
    model = torch_models.MODELS[work.model]()
    parameters = list(model.parameters())
    for number, cohort in enumerate(work.cohorts(), 1):
        base = [parameter.detach().clone() for parameter in parameters]
        total = [torch.zeros_like(parameter) for parameter in base]
        for share in shares[torch.from_numpy(cohort)]:
            with torch.no_grad():
                torch._foreach_copy_(parameters, base)
            torch_models.train(model, parameters, images[share], labels[share], work)
            torch._foreach_add_(total, [parameter.detach() for parameter in parameters])
        torch._foreach_div_(total, len(cohort))
        with torch.no_grad():
            torch._foreach_copy_(parameters, total)
        if work.measured(number):
            result = torch_models.accuracy(model, *test)
        clock.lap()
    clock.tell(result)


if __name__ == "__main__":
    main()
